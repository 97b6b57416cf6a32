package redis

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url  string
		want address
		tls  bool
	}{
		{url: "redis://h", want: address{hosts: []string{"h:6379"}}},
		{url: "redis://:p%40%2F%3Fw@h:1/3", want: address{hosts: []string{"h:1"}, password: "p@/?w", db: 3}},
		{url: "redis://:p@w@[::1]:6380/", want: address{hosts: []string{"[::1]:6380"}, password: "p@w"}},
		{url: "redis://u:p:w@[::1]", want: address{hosts: []string{"[::1]:6379"}, user: "u", password: "p:w"}},
		{url: "rediss://u@h", want: address{hosts: []string{"h:6379"}, user: "u"}, tls: true},
		{url: "redis+cluster://a,b:7", want: address{kind: cluster, hosts: []string{"a:6379", "b:7"}}},
		{url: "redis+cluster://u:p@a?tls=true", want: address{kind: cluster, hosts: []string{"a:6379"}, user: "u", password: "p"}, tls: true},
		{url: "redis+sentinel://u:p@a,b:7/main/2?sentinel_user=x&sentinel_password=y%26",
			want: address{kind: sentinel, hosts: []string{"a:26379", "b:7"}, user: "u", password: "p", db: 2, master: "main", sentinelUser: "x", sentinelPassword: "y&"}},
	} {
		got, err := parseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if (got.tls != nil) != c.tls {
			t.Errorf("%s: TLS is %v", c.url, got.tls)
		}
		got.tls = nil
		if !slices.Equal(got.hosts, c.want.hosts) {
			t.Errorf("%s: hosts %q", c.url, got.hosts)
		}
		got.hosts, c.want.hosts = nil, nil
		if got.kind != c.want.kind || got.user != c.want.user || got.password != c.want.password || got.db != c.want.db ||
			got.master != c.want.master || got.sentinelUser != c.want.sentinelUser || got.sentinelPassword != c.want.sentinelPassword {
			t.Errorf("%s: %+v", c.url, got)
		}
	}
}

// What is wrong in a URL is said with its mend, and never with the password.
func TestWrongURLs(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "hunter2"
	for url, mend := range map[string]string{
		"localhost:6379":                             "redis://",
		"http://" + secret + "@h":                    "redis+cluster://",
		"redis://":                                   "no host",
		"redis://:" + secret + "@":                   "no host",
		"redis://:" + secret + "/x@h":                "%2F",
		"redis://:" + secret + "?x@h":                "%3F",
		"redis://:" + secret + "%zz@h":               "%25",
		"redis://:" + secret + "@h:port":             "port",
		"redis://:" + secret + "@h:70000":            "65535",
		"redis://:" + secret + "@::1":                "[IPv6]",
		"redis://:" + secret + "@a,b":                "redis+cluster://",
		"redis://:" + secret + "@h/zero":             "write a number",
		"redis://:" + secret + "@h/-1":               "write a number",
		"redis+cluster://:" + secret + "@h/1":        "only 0",
		"redis+sentinel://:" + secret + "@h":         "/master",
		"redis://:" + secret + "@h?pool=3":           "ca",
		"redis://:" + secret + "@h?tls=true":         "ca",
		"redis+cluster://:" + secret + "@h?tls=yes":  "true or false",
		"redis+cluster://:" + secret + "@h?ca=%":     "%26",
		"redis://:" + secret + "@h?ca=" + empty:      "rediss://",
		"rediss://:" + secret + "@h?ca=" + empty:     "PEM",
		"rediss://:" + secret + "@h?ca=/no/such.pem": "no such file",
	} {
		_, err := Open(url, Options{})
		if err == nil {
			t.Errorf("%s is taken", url)
			continue
		}
		if !strings.Contains(err.Error(), mend) {
			t.Errorf("%s: %v: no word of %q", url, err, mend)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the password is shown: %v", url, err)
		}
	}
}

// Whatever is taken for a URL can be dialled.
func FuzzParseURL(f *testing.F) {
	f.Add("redis://u:p@h:1/2")
	f.Add("rediss://[::1]:7?ca=x")
	f.Add("redis+sentinel://a,b/m/1?tls=true&sentinel_user=u")
	f.Fuzz(func(t *testing.T, url string) {
		a, err := parseURL(url)
		if err != nil {
			return
		}
		for _, h := range a.hosts {
			if host, port, err := net.SplitHostPort(h); err != nil || host == "" || port == "" {
				t.Errorf("%q has the host %q: %v", url, h, err)
			}
		}
		if len(a.hosts) == 0 || a.kind == sentinel && a.master == "" || a.db < 0 {
			t.Errorf("%q is taken as %+v", url, a)
		}
	})
}
