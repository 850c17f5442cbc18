package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A write has four possible results: nil (it happened), ErrRefused (another writer was first), ErrThrottled (nothing
// happened), or unknown. Unknown is any other error: the write happened, did not, or still will. After unknown,
// callers read the item again.
var (
	ErrRefused   = errors.New("condition refused")
	ErrThrottled = errors.New("throttled")
)

// Unreadable lists the stored jobs that a read could not decode: they are damaged, or a newer
// version wrote them. It comes with the result of the read, so other jobs are unaffected. Such jobs
// still exist, and stay unreadable until a user fixes them.
type Unreadable map[JobID]error

// Besides splits the error of a job read into the unreadable jobs, which leave the result valid,
// and any other error.
func Besides(err error) (Unreadable, error) {
	if bad, ok := errors.AsType[Unreadable](err); ok {
		return bad, nil
	}
	return nil, err
}

func (u *Unreadable) Add(job JobID, err error) {
	if *u == nil {
		*u = Unreadable{}
	}
	(*u)[job] = err
}

// Unlock moves jobs from u to found that only lack their secrets: they can be shown and changed,
// but not run.
func (u Unreadable) Unlock(found func(j *Job)) {
	for id, why := range u {
		if l, is := why.(*Locked[*Job]); is {
			found(l.Record)
			delete(u, id)
		}
	}
}

func (u Unreadable) Err() error {
	if len(u) == 0 {
		return nil
	}
	return u
}

func (u Unreadable) Reasons() []string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(u)) {
		list = append(list, fmt.Sprintf("job %d cannot be read: %v", id, u[id]))
	}
	return list
}

func (u Unreadable) Error() string {
	reasons := u.Reasons()
	if more := len(reasons) - 10; more > 0 {
		reasons = append(reasons[:10], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(reasons, "; ")
}

// UnreadableApps lists by name the stored apps that a read could not decode, like Unreadable.
type UnreadableApps map[string]error

// BesidesApps splits the error of an app read into the unreadable apps and any other error.
func BesidesApps(err error) (UnreadableApps, error) {
	if bad, ok := errors.AsType[UnreadableApps](err); ok {
		return bad, nil
	}
	return nil, err
}

func (u *UnreadableApps) Add(name string, err error) {
	if *u == nil {
		*u = UnreadableApps{}
	}
	(*u)[name] = err
}

func (u UnreadableApps) Err() error {
	if len(u) == 0 {
		return nil
	}
	return u
}

// Of returns the error for users about an unreadable app; nil if name is not in u.
func (u UnreadableApps) Of(name string) error {
	if err := u[name]; err != nil {
		return &Error{Code: CodeRefused, Reason: Say("app %s cannot be read: %s", name, Said(err)), Err: UnreadableApps{name: err}}
	}
	return nil
}

// Said prepares an error as an argument of a Text. An *Error is translated with the Text.
func Said(err error) any {
	if e, is := errors.AsType[*Error](err); is {
		return e
	}
	return err
}

func (u UnreadableApps) Error() string {
	name := slices.Min(slices.Collect(maps.Keys(u)))
	text := fmt.Sprintf("app %s cannot be read: %v", name, u[name])
	if len(u) > 1 {
		text += fmt.Sprintf("; nor can %d others", len(u)-1)
	}
	return text
}

// Code is the kind of an error for a caller. One place maps it to an HTTP status, and one to a
// CLI exit code.
type Code string

const (
	CodeInvalid      Code = "invalid"      // the input is wrong; no change was made
	CodeNotFound     Code = "not-found"    // the object does not exist
	CodeConflict     Code = "conflict"     // it already exists, or another writer changed it
	CodeUnauthorized Code = "unauthorized" // no token or a wrong one
	CodeForbidden    Code = "forbidden"    // the token lacks the permission
	CodeTooLarge     Code = "too-large"    // over a limit
	CodeRefused      Code = "refused"      // valid, but not possible in the current state
	CodeUnavailable  Code = "unavailable"  // temporary: try again
	CodeInternal     Code = "internal"     // a bug or a fault of the server; its text stays in the log
)

// Text is a translatable sentence. Its code is the English format string for package fmt.
// Package words translates it by the code. Arguments can be Texts or *Errors, which are
// translated too.
type Text struct {
	code    string
	args    []any
	english string
}

// Say returns the Text of a constant code and its arguments. A test of package words finds codes
// without translation.
func Say(code string, args ...any) Text { return Text{code, args, fmt.Sprintf(code, args...)} }

// Phrase returns the Text of a few words without arguments that are English data. Examples are the name of an
// unreadable record or a line of the API document. A % has no special meaning.
func Phrase(english string) Text { return Text{code: english, english: english} }

// Code returns the key of the translation tables.
func (t Text) Code() string { return t.code }

func (t Text) Args() []any { return t.args }

// String returns the English sentence.
func (t Text) String() string { return t.english }

// Seen returns the text for a user who has access only to the apps for which sees is true.
func (t Text) Seen(sees func(app string) bool) Text {
	for i, arg := range t.args {
		if names, is := arg.(JobNames); is {
			t.args = slices.Clone(t.args)
			t.args[i] = names.seen(sees)
			t.english = fmt.Sprintf(t.code, t.args...)
		}
	}
	return t
}

// JobNames are jobs in a Text, as app/name, and the number of further jobs.
type JobNames struct {
	Names   []string
	More    int
	Between string
}

func (n JobNames) String() string {
	names := n.Names
	if n.More > 0 {
		names = append(slices.Clone(names), fmt.Sprintf("%d more", n.More))
	}
	return strings.Join(names, n.Between)
}

// seen moves the jobs of inaccessible apps into More.
func (n JobNames) seen(sees func(app string) bool) JobNames {
	all := len(n.Names)
	n.Names = slices.DeleteFunc(slices.Clone(n.Names), func(name string) bool {
		app, _, _ := strings.Cut(name, "/")
		return !sees(app)
	})
	n.More += all - len(n.Names)
	return n
}

// Listed joins texts as "a, b, c"; the zero Text if there are none.
func Listed(parts []Text) Text {
	if len(parts) == 0 {
		return Text{}
	}
	text := parts[0]
	for _, p := range parts[1:] {
		text = Say("%s, %s", text, p)
	}
	return text
}

// Error is an error message for users: the problem, its place and the allowed values.
type Error struct {
	Code   Code
	Field  string // path such as "schedule.cron"; may be empty
	Value  string // input, truncated to 200 bytes; may be empty, never a secret
	Reason Text   // the problem and the allowed values
	Err    error  // cause, for the log only
}

func (e *Error) Error() string {
	switch {
	case e.Field != "" && e.Value != "":
		return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Reason)
	case e.Field != "":
		return e.Field + ": " + e.Reason.String()
	}
	return e.Reason.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Invalid returns an error about an input field; reason is the code of a Text.
func Invalid(field, value, reason string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Value: Truncate(value), Reason: Say(reason, args...)}
}

// Truncate shortens an input value for an error message.
func Truncate(value string) string {
	if len(value) > 200 {
		value = strings.ToValidUTF8(value[:200], "") + "…"
	}
	return value
}

// Errorf returns an error without a field; format is the code of a Text.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: Say(format, args...)}
}

// CodeOf returns the code of an error for a caller. Errors that are neither an Error nor from a
// store are internal.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, ErrThrottled):
		return CodeUnavailable
	case errors.Is(err, ErrRefused):
		return CodeConflict
	}
	return CodeInternal
}

// Passing returns the error for users if a store did not answer or records are unreadable.
func Passing(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if bad, _ := Besides(err); bad != nil {
		return &Error{Code: CodeRefused, Reason: Say("%v", bad), Err: err}
	}
	if bad, _ := BesidesApps(err); bad != nil {
		if len(bad) == 1 {
			for name := range bad {
				return bad.Of(name)
			}
		}
		return &Error{Code: CodeRefused, Reason: Say("%v", bad), Err: err}
	}
	return &Error{Code: CodeUnavailable, Reason: Say("the store did not answer: try again"), Err: err}
}

// Unread returns the error for users about a strong read that left items out; nil if it is
// complete.
func Unread[T any](left []T, err error) error {
	if err == nil && len(left) > 0 {
		err = ErrThrottled
	}
	if err != nil {
		return Passing(err)
	}
	return nil
}
