package secretbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

func newBox(t *testing.T) *Box {
	t.Helper()
	b, made, err := File(t.Context(), filepath.Join(t.TempDir(), "key"))
	if err != nil || !made {
		t.Fatal(made, err)
	}
	return b
}

func TestOpenRejectsSecretOfOtherRecord(t *testing.T) {
	b := newBox(t)
	sealed, err := Seal(b, core.App{Name: "shop", Token: "token-of-shop"})
	check.OK(t, err)
	again, _ := Seal(b, core.App{Name: "shop", Token: "token-of-shop"})
	if sealed.Token == again.Token {
		t.Error("equal secrets have equal stored forms")
	}
	if opened, err := Open(b, sealed); err != nil || opened.Token != "token-of-shop" {
		t.Fatalf("%q, %v", opened.Token, err)
	}
	for name, moved := range map[string]core.App{
		"moved":   {Name: "other", Token: sealed.Token},
		"damaged": {Name: "shop", Token: sealed.Token[:len(sealed.Token)-3]},
		"no key":  {Name: "shop", Token: "enc::" + strings.Repeat("A", 60)},
	} {
		opened, err := Open(b, moved)
		var l *core.Locked
		if !errors.As(err, &l) || opened.Token != core.LockedMark+moved.Token {
			t.Errorf("%s: %q, %v", name, opened.Token, err)
		}
		if kept, err := Seal(b, opened); err != nil || kept.Token != moved.Token {
			t.Errorf("%s: stored again as %q, %v", name, kept.Token, err)
		}
	}
	if opened, err := Open(nil, sealed); err == nil {
		t.Errorf("without keys: %q", opened.Token)
	}
}

// The file takes MaxKeys keys, one that cannot be written changes nothing, and an old copy of the text never replaces
// the newest key.
func TestRotationBoundsKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub", "key")
	check.OK(t, os.Mkdir(filepath.Dir(file), 0o700))
	b, _, err := File(t.Context(), file)
	check.OK(t, err)
	ids := map[string]bool{}
	for range MaxKeys - 1 {
		id, err := b.Begin(t.Context(), true)
		if err != nil || ids[id] {
			t.Fatal(id, err)
		}
		ids[id] = true
		check.OK(t, b.End(t.Context()))
	}
	if text, _ := os.ReadFile(file); strings.Count(string(text), "\n") != MaxKeys {
		t.Errorf("%d keys", strings.Count(string(text), "\n"))
	}
	was := b.keys[0].id
	if _, err := b.Begin(t.Context(), true); core.CodeOf(err) != core.CodeTooLarge || b.keys[0].id != was {
		t.Errorf("one key more: %v", err)
	}
	read := b.read
	b.read = func(context.Context) (string, error) { return b.keys[1].text, nil }
	if err := b.End(t.Context()); !errors.Is(err, core.ErrThrottled) || b.keys[0].id != was {
		t.Errorf("an old copy was read: %v", err)
	}
	b.read = read
	b.keys = b.keys[:2]
	b.read = func(context.Context) (string, error) { return b.keys[0].text + "\n" + b.keys[1].text, nil }
	b.write = func(context.Context, string) error { return errors.New("read-only") }
	if _, err := b.Begin(t.Context(), true); err == nil || b.keys[0].id != was {
		t.Errorf("a key that is not stored counts: %v", err)
	}
}

// A Box that cannot read its keys stores no secret, also if they can be read a moment later.
func TestSealWithoutKeysFails(t *testing.T) {
	tries := 0
	b := New(core.Say("the keys"), func(context.Context) (string, error) {
		if tries++; tries == 1 {
			return "", errors.New("not now")
		}
		return NewKey(), nil
	}, nil)
	_ = b.Load(t.Context())
	app := core.App{Name: "a", Token: "secret", Call: &core.Call{Auth: core.Auth{Bearer: "other"}}}
	if sealed, err := Seal(b, app); err == nil {
		t.Errorf("%+v", sealed)
	}
}

// A record of a key that is not known makes the keys be read at once, the same key again after ReloadEvery only.
func TestUnknownKeyIsLookedForAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, reads := NewKey(), 0
		shared := func() *Box {
			return New(core.Say("the keys"), func(context.Context) (string, error) { reads++; return text, nil },
				func(_ context.Context, s string) error { text = s; return nil })
		}
		early, other := shared(), shared()
		app := core.App{Name: "shop", Token: "token-of-shop"}
		old, err := Seal(early, app)
		check.OK(t, err)
		check.Call(t)(other.Begin(t.Context(), true))
		sealed, _ := Seal(other, app)
		if opened, err := Open(early, sealed); err != nil || opened.Token != app.Token {
			t.Errorf("right after the rotation: %q, %v", opened.Token, err)
		}
		late := shared()
		if old, err = Seal(late, app); err != nil {
			t.Fatal(err)
		}
		check.OK(t, other.End(t.Context()))
		check.Call(t)(other.Begin(t.Context(), true))
		time.Sleep(ReloadEvery)
		if again, _ := Seal(late, app); again.Token[:12] == old.Token[:12] {
			t.Error("a process of before the rotation still encrypts with the old key")
		}
		before := reads
		for range 10 {
			if _, err := Open(early, core.App{Name: "shop", Token: "enc:00000000:" + strings.Repeat("A", 60)}); err == nil {
				t.Fatal("a foreign key opened a secret")
			}
		}
		if reads != before+1 {
			t.Errorf("a key that is not there was looked for %d times in a moment", reads-before)
		}
	})
}

// Keys that cannot be used lock the secrets, so that the records are named; keys that cannot be read for a moment lock none.
func TestUnusableKeysLockSecrets(t *testing.T) {
	sealed, err := Seal(newBox(t), core.App{Name: "shop", Token: "token-of-shop"})
	check.OK(t, err)
	for name, c := range map[string]struct {
		text  string
		err   error
		locks bool
	}{
		"missing":    {err: core.Errorf(core.CodeRefused, "does not exist"), locks: true},
		"malformed":  {text: "short\n", locks: true},
		"empty":      {locks: true},
		"no answer":  {err: errors.New("timeout")},
		"other keys": {text: NewKey(), locks: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(core.Say("the parameter %s", "/t/key"), func(context.Context) (string, error) { return c.text, c.err }, nil)
				opened, err := Open(b, sealed)
				if _, locked := err.(*core.Locked); locked != c.locks || !locked && !errors.Is(err, core.ErrThrottled) {
					t.Errorf("%T: %v", err, err)
				}
				if kept, err := Seal(b, opened); err != nil || kept.Token != sealed.Token {
					t.Errorf("stored again as %q, %v", kept.Token, err)
				}
				c.text, c.err = NewKey(), nil
				time.Sleep(ReloadEvery)
				if _, err := Seal(b, core.App{Name: "shop", Token: "a-new-secret"}); err != nil {
					t.Errorf("a new secret, once there is a key: %v", err)
				}
			})
		})
	}
}

// All of several processes that start with one path have one and the same key.
func TestOneOfManyCreatesKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	var all sync.WaitGroup
	ids, made := make([]string, 20), make([]bool, 20)
	for i := range ids {
		all.Go(func() {
			b, is, err := File(t.Context(), file)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i], made[i] = b.keys[0].id, is
		})
	}
	all.Wait()
	slices.Sort(ids)
	check.Equal(t, len(slices.Compact(ids)), 1, "keys %v", ids)
	if made = slices.DeleteFunc(made, func(is bool) bool { return !is }); len(made) != 1 {
		t.Errorf("%d created the file", len(made))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(NewKey())
	f.Add("# a comment\n" + strings.TrimSpace(NewKey()) + pending + "\n" + NewKey())
	f.Fuzz(func(t *testing.T, text string) {
		if keys, _, err := parse(text); err == nil && (len(keys) == 0 || len(keys) > MaxKeys) {
			t.Errorf("%d keys", len(keys))
		}
	})
}
