// Package secretbox encrypts the secrets of stored records (tokens of apps, headers of calls, variables of commands, channels)
// with AES-256-GCM, so that a copy of the database does not reveal them. The name of the record is authenticated:
// a secret that was moved to another record cannot be decrypted there. It stores no record and decides nothing
// about one that cannot be decrypted.
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
	// ReloadEvery is how often the keys are read again, to seal or to find a missing key. A key that is missing for the
	// first time is searched at once, for at most MaxKeys keys.
	ReloadEvery = 5 * time.Second
)

// Box encrypts and decrypts. A nil Box leaves secrets as they are.
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

// New makes a Box that reads and writes its key text with these functions. Load or the first use reads the text. name is the
// name of the text for users. If the error of read is a *core.Error, it is permanent, otherwise temporary.
func New(name core.Text, read func(context.Context) (string, error), write func(context.Context, string) error) *Box {
	return &Box{name: name, read: read, write: write, missed: map[string]time.Time{}}
}

// NewKey returns the key text of a new deployment.
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

// Record is a stored record that has secrets.
type Record[T any] interface {
	WithSecrets(turn func(secret string) string) T
	SecretsOf() string
}

// Seal returns a record with its secrets encrypted. Secrets that could not be decrypted keep their stored form.
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

// Open returns a record with its secrets decrypted. Its error is a *core.Locked with the record if one cannot be decrypted, and
// a core.ErrThrottled if the keys could not be read.
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
		return opened, &core.Locked[T]{Record: opened, Err: why}
	}
	return opened, failed
}

// Reseal returns a record with its secrets encrypted by the newest key, and whether that changed it.
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

// Begin reads the keys and returns the ID of the newest. If fresh is set and no earlier rotation is unfinished, that is a new key.
// Callers make sure that nothing else changes the same key text at the same time.
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

// End records that all secrets are encrypted with the newest key. The older keys stay, for copies of the database and for
// processes that do not know the newest yet.
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
