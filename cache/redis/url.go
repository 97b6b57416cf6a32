package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// kind of a Redis installation
type kind uint8

const (
	plain kind = iota
	sentinel
	cluster
)

// address is what a URL says. Its errors never show a password.
type address struct {
	kind             kind
	hosts            []string // host:port; of sentinel those of the sentinels
	user, password   string
	db               int
	master           string // sentinel: the name of the master
	sentinelUser     string
	sentinelPassword string
	tls              *tls.Config // nil: plain TCP
}

const urlForms = "redis://[user:password@]host[:6379][/db], rediss:// for TLS, " +
	"redis+sentinel://[user:password@]host[:26379],host/master[/db], redis+cluster://[user:password@]host[:6379],host"

// parseURL reads a store's URL. Settings after the question mark: tls=true
// (sentinel and cluster), ca=FILE with the certificates to trust in place of
// the system's, sentinel_user and sentinel_password.
func parseURL(raw string) (a address, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	port := "6379"
	switch {
	case !ok:
		return a, errors.New("the store's URL has no scheme: write " + urlForms)
	case scheme == "redis":
	case scheme == "rediss":
		a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	case scheme == "redis+sentinel":
		a.kind, port = sentinel, "26379"
	case scheme == "redis+cluster":
		a.kind = cluster
	default:
		return a, fmt.Errorf("the store's URL has the scheme %q: write %s", scheme, urlForms)
	}

	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(rest, '@'); at > len(authority) || strings.Contains(query, "@") && !strings.Contains(rest, "@") {
		return a, errors.New(`the store's URL has an @ after its host: in a user or password write "/" as %2F, "?" as %3F, "@" as %40`)
	}
	hosts := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		hosts = authority[at+1:]
		user, password, _ := strings.Cut(authority[:at], ":")
		var errUser, errPassword error
		a.user, errUser = url.PathUnescape(user)
		a.password, errPassword = url.PathUnescape(password)
		if errUser != nil || errPassword != nil {
			return a, errors.New(`the store's URL has a % that begins no escape in its user or password: write "%" as %25`)
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host, err = withPort(host, port); err != nil {
			return a, err
		}
		a.hosts = append(a.hosts, host)
	}
	if a.kind == plain && len(a.hosts) > 1 {
		return a, errors.New("the store's URL names several hosts: write redis+sentinel:// or redis+cluster://")
	}

	path = strings.TrimSuffix(path, "/")
	if a.kind == sentinel {
		if a.master, path, _ = strings.Cut(path, "/"); a.master == "" {
			return a, errors.New("the store's URL does not name the master: write redis+sentinel://host:26379/master")
		}
	}
	if path != "" {
		if a.db, err = strconv.Atoi(path); err != nil || a.db < 0 {
			return a, fmt.Errorf("the store's URL has %q for a database: write a number", path)
		}
		if a.kind == cluster && a.db != 0 {
			return a, errors.New("the store's URL has a database: a cluster has only 0")
		}
	}
	return a, a.settings(query)
}

func withPort(host, port string) (string, error) {
	if host == "" {
		return "", errors.New("the store's URL has no host: write " + urlForms)
	}
	name, given := host, port
	if bare, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(bare, "]") {
		name = bare[:len(bare)-1]
	} else if strings.Contains(host, ":") {
		var err error
		if name, given, err = net.SplitHostPort(host); err != nil {
			return "", errors.New("the store's URL has a host that can't be read: write host:port, [IPv6]:port")
		}
	}
	if strings.ContainsAny(name, "[]") {
		return "", errors.New("the store's URL has a host that can't be read: write host:port, [IPv6]:port")
	}
	if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 || name == "" {
		return "", errors.New("the store's URL has a host or port that can't be read: write host:port, with a port from 1 to 65535")
	}
	return net.JoinHostPort(name, given), nil
}

func (a *address) settings(query string) error {
	settings, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the store's URL has settings that can't be read: write ?name=value&name=value, with escapes like %26 in values")
	}
	allowed := []string{"ca"}
	switch a.kind {
	case sentinel:
		allowed = append(allowed, "tls", "sentinel_user", "sentinel_password")
	case cluster:
		allowed = append(allowed, "tls")
	}
	for name := range settings {
		if !slices.Contains(allowed, name) {
			return fmt.Errorf("the store's URL has the setting %q: here there are only %s", name, strings.Join(allowed, ", "))
		}
	}
	a.sentinelUser, a.sentinelPassword = settings.Get("sentinel_user"), settings.Get("sentinel_password")
	switch v := settings.Get("tls"); v {
	case "", "false":
	case "true":
		a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return fmt.Errorf("the store's URL has tls=%q: write true or false", v)
	}
	file := settings.Get("ca")
	if file == "" {
		return nil
	}
	if a.tls == nil {
		return errors.New("the store's URL has ca, which only TLS uses: write rediss://, or tls=true")
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the store's URL has ca: %w", err)
	}
	a.tls.RootCAs = x509.NewCertPool()
	if !a.tls.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("the store's URL has ca=%s, which holds no certificate in PEM form", file)
	}
	return nil
}

// CheckURL says what is wrong with a store's URL, without its password.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}
