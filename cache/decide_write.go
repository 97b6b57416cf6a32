package cache

// decideWrite is Decide for writes. Nothing here leads that may have been sent,
// unless the upstream deduplicates, or its caller says so.
func decideWrite(c Claim, v View) Decision {
	w, d := c.Write, Decision{}
	switch {
	case v.State == Absent && w.Aged:
		return Decision{Role: Aged}
	case v.State == Absent, v.State == Released,
		v.State == Claimed && v.Lapsed && !v.Doubt: // nothing was sent
		return Decision{Role: Lead}
	case (v.State == Completed || v.State == Tombstone) && w.Within > 0 && v.Age >= w.Within:
		return Decision{Role: Lead}
	case c.Fingerprint != v.Fingerprint:
		return Decision{Role: Mismatch}
	case (v.State == Claimed || v.State == Dispatched) && !v.Lapsed:
		return Decision{Role: Follow, Share: ByKey}
	case v.State == Completed && v.Kept:
		return Decision{Role: Replay, Share: ByKey}
	case v.State == Completed, v.State == Tombstone:
		return Decision{Role: Gone, Share: ByKey}
	case v.State == Dispatched:
		d.Lapsed = true // its leader was not heard of: unknown from here on
	}
	// Unknown, and a claim to run it again that came to nothing.
	d.Role = InDoubt
	if w.Knowingly || w.Again > 0 && v.Sent < w.Again {
		d.Role, d.Again = Lead, true
	}
	return d
}
