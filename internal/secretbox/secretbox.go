// Package secretbox encrypts the secrets of stored records with AES-256-GCM, so that a copy of the database does not
// reveal the secrets. Secrets are tokens of apps, headers of calls, variables of commands, and settings of channels.
// The name of the record is authenticated: a secret that was copied to another record cannot be decrypted there. The
// package stores no records, and does not decide what happens to a record that cannot be decrypted.
package secretbox

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// Bounds of a key text: one key on a line, the newest first; older keys decrypt only. Lines that begin with # are comments.
const (
	MaxKeys  = 30
	maxText  = 4096 // bytes, the limit of an SSM parameter
	minKey   = 40   // characters of a key, as rand.Text writes it twice
	sealMark = "enc:"
	// pending follows the newest key while a rotation to it has not ended.
	pending = " pending"
	// ReloadEvery is the interval at which a Box reads the keys again, to encrypt with the newest key or to find
	// a missing key. When a key is first found missing, the Box reads the keys at once; this applies to at most
	// MaxKeys keys.
	ReloadEvery = 5 * time.Second
)

// Box encrypts and decrypts secrets. A nil Box returns secrets unchanged.
type Box struct {
	name  core.Text
	read  func(context.Context) (string, error)
	write func(context.Context, string) error

	mu      sync.Mutex
	keys    []key // the newest first
	pending bool
	tried   time.Time            // when the keys were read last
	failed  error                // of the last reading
	missed  map[string]time.Time // IDs that the keys lacked, and when these were read for them
}

type key struct {
	id, text string
	aead     cipher.AEAD
}

// New returns a Box that reads and writes its key text with the functions read and write. Load or the first use of the
// Box reads the text. name is the name of the key text in messages for users. An error of read is permanent if it is a
// *core.Error, and temporary otherwise.
func New(name core.Text, read func(context.Context) (string, error), write func(context.Context, string) error) *Box {
	return &Box{name: name, read: read, write: write, missed: map[string]time.Time{}}
}

// NewKey returns the key text for a new deployment.
func NewKey() string { return rand.Text() + rand.Text() + "\n" }

func keyOf(text string) (key, error) {
	secret, err := hkdf.Key(sha256.New, []byte(text), nil, "tickring secrets", 32+4)
	if err != nil {
		return key{}, err
	}
	block, err := aes.NewCipher(secret[:32])
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return key{hex.EncodeToString(secret[32:]), text, aead}, err
}

func parse(text string) (keys []key, isPending bool, err error) {
	if len(text) > maxText {
		return nil, false, fmt.Errorf("the key text has %d bytes: at most %d are allowed", len(text), maxText)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line, is := strings.CutSuffix(line, pending)
		is = is && len(keys) == 0 // else it comes from a copy of the file that was made during a rotation
		if len(line) < minKey || strings.ContainsAny(line, " \t") || len(keys) == MaxKeys {
			return nil, false, fmt.Errorf("line %d: expected one key per line, with at least %d characters and no spaces; "+
				"at most %d keys are allowed", n, minKey, MaxKeys)
		}
		k, err := keyOf(line)
		if err != nil {
			return nil, false, err
		}
		keys, isPending = append(keys, k), isPending || is
	}
	if len(keys) == 0 {
		return nil, false, fmt.Errorf("no key: expected a line of at least %d characters", minKey)
	}
	return keys, isPending, nil
}

// Load reads the keys.
func (b *Box) Load(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.load(ctx)
}

func (b *Box) load(ctx context.Context) error {
	text, err := b.read(ctx)
	b.tried = time.Now()
	if err == nil {
		var keys []key
		var is bool
		if keys, is, err = parse(text); err == nil {
			b.keys, b.pending = keys, is
		} else {
			err = core.Errorf(core.CodeRefused, "%s cannot be used: %v", b.name, err)
		}
	}
	b.failed = err
	return err
}

// loaded returns the keys, to open a text of key id or, if id is empty, to seal. It reads them again as ReloadEvery sets,
// once a second after a temporary failure. Its error is a *core.Error if the keys have to be repaired.
func (b *Box) loaded(id string) ([]key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, lasts := b.failed.(*core.Error)
	last, wait := b.tried, ReloadEvery
	if len(b.keys) == 0 && !lasts {
		wait = time.Second
	} else if at, is := b.missed[id]; id != "" && (is || len(b.missed) < MaxKeys) {
		last = at
	}
	if (id == "" || find(b.keys, id) == nil) && time.Since(last).Abs() >= wait {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = b.load(ctx) // the keys that were read before stay
		if delete(b.missed, id); id != "" && find(b.keys, id) == nil {
			b.missed[id] = b.tried
		}
	}
	_, lasts = b.failed.(*core.Error)
	switch {
	case len(b.keys) > 0 && (b.failed == nil || lasts || find(b.keys, id) != nil):
		return b.keys, nil
	case lasts:
		return nil, b.failed
	}
	return nil, fmt.Errorf("read the keys of stored secrets: %w", errors.Join(core.ErrThrottled, b.failed))
}

// find returns the key of an id, or for an empty id the newest.
func find(keys []key, id string) *key {
	for i := range keys {
		if id == "" || keys[i].id == id {
			return &keys[i]
		}
	}
	return nil
}

func (k *key) seal(record, secret string) string {
	sealed := k.aead.Seal(nil, nil, []byte(secret), []byte(record)) //nolint:gosec // this AEAD makes a random nonce
	return sealMark + k.id + ":" + base64.RawStdEncoding.EncodeToString(sealed)
}

// open decrypts a stored secret. One without the mark was stored before secrets were encrypted.
func (b *Box) open(record, stored string) (string, error) {
	rest, sealed := strings.CutPrefix(stored, sealMark)
	if !sealed {
		return stored, nil
	}
	id, text, _ := strings.Cut(rest, ":")
	var keys []key
	if b != nil {
		var err error
		if keys, err = b.loaded(id); err != nil {
			return "", err
		}
	}
	k := find(keys, id)
	if k == nil || id == "" {
		return "", core.Errorf(core.CodeRefused, "the secrets are encrypted with key %s, which this server does not have: add the key to "+
			"the key file, or set the secrets again", core.Truncate(id))
	}
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err == nil {
		data, err = k.aead.Open(nil, nil, data, []byte(record))
	}
	if err != nil {
		return "", core.Errorf(core.CodeRefused, "a secret is damaged or belongs to another record: set the secrets again")
	}
	return string(data), nil
}

// Record is a stored record that contains secrets.
type Record[T any] interface {
	WithSecrets(turn func(secret string) string) T
	SecretsOf() string
}

// Seal returns the record with encrypted secrets. Secrets that could not be decrypted before keep their stored form.
func Seal[T Record[T]](b *Box, r T) (sealed T, err error) {
	if b == nil {
		return r, nil
	}
	var newest *key
	r.WithSecrets(func(secret string) string {
		if newest == nil && err == nil && secret != "" && !strings.HasPrefix(secret, core.LockedMark) {
			var keys []key
			if keys, err = b.loaded(""); err == nil {
				newest = &keys[0]
			}
		}
		return secret
	})
	if err != nil {
		return r, err
	}
	return r.WithSecrets(func(secret string) string {
		if stored, is := strings.CutPrefix(secret, core.LockedMark); is || secret == "" {
			return stored
		}
		return newest.seal(r.SecretsOf(), secret)
	}), nil
}

// Open returns the record with decrypted secrets. If a secret cannot be decrypted, the error is a *core.Locked. If the
// keys could not be read, the error is a core.ErrThrottled.
func Open[T Record[T]](b *Box, r T) (T, error) {
	var failed error
	opened := r.WithSecrets(func(stored string) string {
		secret, err := b.open(r.SecretsOf(), stored)
		if err != nil {
			failed = err
			return core.LockedMark + stored
		}
		return secret
	})
	if why, is := failed.(*core.Error); is {
		return opened, &core.Locked{Err: why}
	}
	return opened, failed
}

// Reseal returns the record with secrets encrypted by the newest key, and reports whether the record changed.
func Reseal[T Record[T]](b *Box, r T) (resealed T, changed bool, err error) {
	keys, err := b.loaded("")
	if err != nil {
		return r, false, err
	}
	resealed = r.WithSecrets(func(stored string) string {
		if strings.HasPrefix(stored, sealMark+keys[0].id+":") || stored == "" {
			return stored
		}
		secret, err := b.open(r.SecretsOf(), stored)
		if err != nil { // nothing that has the keys can use it
			return stored
		}
		changed = true
		return keys[0].seal(r.SecretsOf(), secret)
	})
	return resealed, changed, nil
}

// Begin starts a key rotation and returns the ID of the newest key. If fresh is set and no earlier rotation is
// unfinished, Begin first creates a new key. The caller must make sure that no other process changes the key text at
// the same time.
func (b *Box) Begin(ctx context.Context, fresh bool) (id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.load(ctx); err != nil {
		return "", err
	}
	if fresh && !b.pending {
		if len(b.keys) == MaxKeys {
			return "", core.Errorf(core.CodeTooLarge, "there are %d keys, the maximum: remove the last keys, unless a copy of "+
				"the database needs these keys", MaxKeys)
		}
		k, err := keyOf(strings.TrimSpace(NewKey()))
		if err != nil {
			return "", err
		}
		if err := b.store(ctx, append([]key{k}, b.keys...), true); err != nil {
			return "", err
		}
	}
	return b.keys[0].id, nil
}

// End records that the newest key encrypts all secrets. The older keys are kept, for copies of the database and for
// processes that have not read the newest key yet.
func (b *Box) End(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.keys
	if err := b.load(ctx); err != nil {
		return err
	}
	if len(before) > 0 && find(b.keys, before[0].id) == nil { // an old copy was read: storing it would lose the newest key
		b.keys = before
		return fmt.Errorf("read the keys of stored secrets: the newest key is missing: %w", core.ErrThrottled)
	}
	return b.store(ctx, b.keys, false)
}

func (b *Box) store(ctx context.Context, keys []key, is bool) error {
	var text strings.Builder
	for i, k := range keys {
		text.WriteString(k.text)
		if is && i == 0 {
			text.WriteString(pending)
		}
		text.WriteString("\n")
	}
	if err := b.write(ctx, text.String()); err != nil {
		return err
	}
	b.keys, b.pending = keys, is
	return nil
}
