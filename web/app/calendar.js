// Days, in any zone.

const formats = new Map();
// format writes times in a zone, and known is a zone that it can write them in.
export function format(name, options) {
  const key = name + JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { timeZone: name, ...options }));
  return formats.get(key);
}
export const known = (name) => {
  try {
    format(name, {});
    return name;
  } catch {
    return "UTC";
  }
};

// midnight is when the day began in a zone, as a time by RFC 3339.
export function midnight(name, t = Date.now()) {
  const f = format(known(name), { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const wall = (at) => {
    const p = Object.fromEntries(f.formatToParts(at).map((x) => [x.type, Number(x.value)]));
    return Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second);
  };
  const start = Math.floor(wall(t) / 86400e3) * 86400e3;
  // Twice, for a day on which the clocks change.
  let at = start - (wall(t) - Math.floor(t / 1000) * 1000);
  at -= wall(at) - start;
  // Clocks that are set back to midnight have it twice.
  if (wall(at - 3600e3) === start) at -= 3600e3;
  return new Date(at).toISOString().replace(".000Z", "Z");
}
