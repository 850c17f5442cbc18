package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Bounds of a dead-letter message.
const (
	maxLetter   = 300 << 10 // bytes of its body, more than a message of the delay queue has
	keepLetters = 20 * 24 * time.Hour
)

// KindLetter is the kind of dead-letter messages, newest first.
const KindLetter = "letter"

// letters are dead-letter messages. The version is the time of the message.
var letters = Table[core.Letter]{Kind: KindLetter,
	Name:    func(l *core.Letter) string { return l.ID },
	Version: func(l *core.Letter) int64 { return core.Millis(l.At) },
	Encode:  func(l *core.Letter) ([]byte, error) { return EncodeHead(l, []byte(l.Body)) },
	Decode: func(r *Record) (l core.Letter, err error) {
		body, err := DecodeHead(r.Body, &l)
		l.Body = string(body)
		return l, err
	},
	Fill: func(l *core.Letter, r *Record) { l.ID = r.Name }}

// LetterID returns the ID of a dead-letter message. IDs sort by the time of the message, newest first.
func LetterID(at time.Time, message string) string {
	return fmt.Sprintf("%019d#%.100s", math.MaxInt64-at.UnixNano(), message)
}

// LetterWrite returns the write of a dead-letter message. A body that is too long is truncated.
func LetterWrite(l core.Letter) (Write, error) {
	if len(l.Body) > maxLetter {
		l.Body = strings.ToValidUTF8(l.Body[:maxLetter], "")
	}
	w, err := letters.Put(nil, l, Any)
	w.Expires = l.At.Add(keepLetters)
	return w, err
}

// NewLetter returns a dead-letter message that did not come from a queue.
func NewLetter(at time.Time, body []byte, reason string) core.Letter {
	return core.Letter{ID: LetterID(at, rand.Text()), At: core.FromMillis(core.Millis(at)), Reason: reason, Body: string(body)}
}

// NewerLetterID returns id, or an ID just before newest if id would not be the first in the list. An empty newest means that
// there is no message.
func NewerLetterID(id, newest string) string {
	var at int64
	if _, err := fmt.Sscanf(newest, "%d#", &at); err != nil || id < newest {
		return id
	}
	_, message, _ := strings.Cut(id, "#")
	return fmt.Sprintf("%019d#%s", at-1, message)
}

func (s *Store) KeepLetter(ctx context.Context, l core.Letter) error {
	w, err := LetterWrite(l)
	if err != nil {
		return err
	}
	return s.Write(ctx, w)
}

func (s *Store) Letters(ctx context.Context, after string, limit int) ([]core.Letter, error) {
	if after != "" && !strings.Contains(after, "#") {
		return nil, core.Invalid("after", after, "expected the ID of a dead-letter message: use the value of next from the previous page")
	}
	return letters.good(letters.List(ctx, s, after, limit))
}

func (s *Store) DropLetter(ctx context.Context, id string) error {
	return s.Write(ctx, letters.Delete(id, Any))
}
