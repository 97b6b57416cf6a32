package policy

import "testing"

func TestSpentQuota(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   bool
	}{
		"code":                    {429, `{"error":{"code":"insufficient_quota","type":"x"}}`, true},
		"type":                    {429, `{"error":{"code":null,"type":"billing_hard_limit_reached"}}`, true},
		"at the top":              {429, `{"code":"credit_balance_exhausted","message":"x"}`, true},
		"organization, usage":     {429, `{"error":{"code":"organization_usage_limit_exceeded"}}`, true},
		"organization, spend":     {429, `{"error":{"type":"organization_spend_limit_exceeded"}}`, true},
		"project":                 {429, `{"error":{"code":"project_spend_limit_exceeded"}}`, true},
		"inside a 200":            {200, `{"error":{"code":"insufficient_quota"}}`, true},
		"an event of responses":   {429, `{"type":"response.failed","response":{"error":{"code":"insufficient_quota"}}}`, true},
		"details":                 {429, `{"error":{"details":{"error_code":"enforced_spend_limit_reached"}}}`, true},
		"any 402":                 {402, `<html>`, true},
		"Google a day":            {429, `{"error":{"code":429,"details":[{"violations":[{"quotaId":"GenerateRequestsPerMinute"},{"quotaId":"GenerateRequestsPerDayPerProject"}]}]}}`, true},
		"Google daily, array":     {429, `[{"error":{"details":[{"violations":[{"quotaId":"DailyTokens"}]}]}}]`, true},
		"Google exhausted":        {429, `{"error":{"details":[{"reason":"QUOTA_EXHAUSTED"}]}}`, true},
		"Google insufficient":     {429, `{"error":{"details":[{"reason":"INSUFFICIENT_G1_CREDITS_BALANCE"}]}}`, true},
		"a limit":                 {429, `{"error":{"code":"rate_limit_exceeded","type":"requests"}}`, false},
		"only the message":        {429, `{"error":{"message":"insufficient_quota: you exceeded your quota","code":"rate_limit_exceeded"}}`, false},
		"a part of the value":     {429, `{"error":{"code":"not_insufficient_quota"}}`, false},
		"another case":            {429, `{"error":{"code":"Insufficient_Quota"}}`, false},
		"another field":           {429, `{"error":{"param":"insufficient_quota"}}`, false},
		"Google a minute":         {429, `{"error":{"details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]}]}}`, false},
		"Google, another reason":  {429, `{"error":{"details":[{"reason":"RATE_LIMIT_EXCEEDED"}]}}`, false},
		"permissions":             {403, `{"error":{"details":[{"reason":"INSUFFICIENT_PERMISSIONS"}]}}`, false},
		"not JSON":                {429, `"code":"insufficient_quota"`, false},
		"cut short":               {429, `{"error":{"code":"insufficient_quota"`, false},
		"nothing":                 {429, ``, false},
		"a number for the object": {429, `{"error":3}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SpentQuota(c.status, []byte(c.body)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func FuzzSpentQuota(f *testing.F) {
	f.Add(429, []byte(`{"error":{"code":"insufficient_quota","details":[{"violations":[{"quotaId":"PerDay"}]}]}}`))
	f.Add(200, []byte(`[{"error":{"details":{"error_code":"enforced_spend_limit_reached"}}}]`))
	f.Add(402, []byte(nil))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		spent := SpentQuota(status, body)
		if status == 402 && !spent {
			t.Fatal("a 402 is a spent quota whatever its body")
		}
	})
}
