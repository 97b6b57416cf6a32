package redis

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	redis "github.com/redis/go-redis/v9"
)

// The secret is kept as one of
//
//	made <hex>   the store made it: this is it
//	set <hex>    store.secret: an HMAC to recognise it by, not the secret
const (
	secretMade = "made "
	secretSet  = "set "
)

func recogniser(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("oncegate: the secret of a store"))
	return secretSet + hex.EncodeToString(mac.Sum(nil))
}

var (
	errOtherSecret = errors.New("the records in this Redis have names made with another secret than this node's: " +
		"set store.secret to the one they were made with, on all nodes, or use an empty Redis")
	errSecretIsSet = errors.New("the other nodes on this Redis have store.secret set: set it here too, to the same")
)

// identity is the secret of this node, once it is known, and how the store
// must know it.
type identity struct {
	mu     sync.Mutex
	secret []byte
	stored string // what secretKey must hold
}

// settle compares what the store holds with what this node knows. put is what
// to write where the store holds nothing.
func (id *identity) settle(held string) (put string, err error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	hexed, made := strings.CutPrefix(held, secretMade)
	switch {
	case held == "" && id.secret == nil:
		secret := make([]byte, 32)
		rand.Read(secret)
		return secretMade + hex.EncodeToString(secret), nil
	case held == "", held == id.stored:
		return id.stored, nil
	case id.secret == nil && made:
		secret, err := hex.DecodeString(hexed)
		if err != nil || len(secret) < 32 {
			return "", fmt.Errorf("the secret in this Redis is damaged: restore the key %s, or use an empty Redis", secretKey)
		}
		id.secret, id.stored = secret, held
		return held, nil
	case id.secret == nil:
		return "", errSecretIsSet
	case made && hexed == hex.EncodeToString(id.secret):
		return held, nil // store.secret was copied from it
	}
	return "", errOtherSecret
}

func (id *identity) known() []byte {
	id.mu.Lock()
	defer id.mu.Unlock()
	return slices.Clone(id.secret)
}

// introduce makes sure that the store and this node have the same secret: the
// first node makes it, an emptied store gets it back, another's is refused.
func (id *identity) introduce(ctx context.Context, c redis.Cmdable) error {
	for {
		held, err := c.Get(ctx, secretKey).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		put, err := id.settle(held)
		if err != nil || held != "" {
			return err
		}
		if err := c.SetNX(ctx, secretKey, put, 0).Err(); err != nil {
			return err
		}
	}
}

// durability is what each server's settings say about what survives a crash.
type durability struct {
	mu      sync.Mutex
	lacking map[string]string // by server; empty: nothing
	missing map[string]string // by server: that it has too few replicas
}

// replicas hears how many a server has, or how many have what it wrote last.
func (d *durability) replicas(addr string, have, want int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if have >= want {
		delete(d.missing, addr)
		return
	}
	if d.missing == nil {
		d.missing = make(map[string]string)
	}
	d.missing[addr] = fmt.Sprintf("%d replicas answer, store.replicas is %d", have, want)
}

// wanted settings, and why.
var strictSettings = []struct{ name, value string }{
	{"appendonly", "yes"},              // else a restart loses all since the last snapshot
	{"appendfsync", "always"},          // else a crash loses up to a second of what was acknowledged
	{"maxmemory-policy", "noeviction"}, // else a record may go before its time
}

// read asks a server, on a new connection of its own. What the server refuses to
// tell counts as not so. An error is the connection's: its answers may still
// come, and be taken for those of what is asked next.
func (d *durability) read(ctx context.Context, addr string, cn *redis.Conn, replicas int) error {
	pipe := cn.Pipeline()
	cmds := make([]*redis.MapStringStringCmd, len(strictSettings))
	for i, s := range strictSettings {
		cmds[i] = pipe.ConfigGet(ctx, s.name)
	}
	var info *redis.StringCmd
	if replicas > 0 {
		info = pipe.Info(ctx, "replication")
	}
	_, _ = pipe.Exec(ctx) // each answer is looked at
	var lacking []string
	for i, s := range strictSettings {
		got, err := cmds[i].Result()
		var refusal redis.Error
		switch {
		case err != nil && !errors.As(err, &refusal):
			return err
		case err != nil:
			lacking = append(lacking, fmt.Sprintf("%s can't be read (%v)", s.name, err))
		case got[s.name] != s.value:
			lacking = append(lacking, fmt.Sprintf("%s is %q, not %q", s.name, got[s.name], s.value))
		}
	}
	if info != nil {
		text, err := info.Result()
		var refusal redis.Error
		if err != nil && !errors.As(err, &refusal) {
			return err
		}
		if err != nil {
			lacking = append(lacking, fmt.Sprintf("the number of replicas can't be read (%v)", err))
		} else {
			d.replicas(addr, connectedReplicas(text), replicas)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lacking == nil {
		d.lacking = make(map[string]string)
	}
	d.lacking[addr] = strings.Join(lacking, ", ")
	return nil
}

func connectedReplicas(info string) int {
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "connected_slaves:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(text))
			return n
		}
	}
	return 0
}

func (d *durability) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lacking) == 0 {
		return "relaxed: not connected yet"
	}
	var why []string
	for _, faults := range []map[string]string{d.lacking, d.missing} {
		for addr, lacking := range faults {
			if lacking != "" && addr != "" {
				lacking = addr + ": " + lacking
			}
			if lacking != "" {
				why = append(why, lacking)
			}
		}
	}
	if len(why) == 0 {
		return "strict"
	}
	slices.Sort(why)
	return "relaxed: " + strings.Join(why, "; ")
}
