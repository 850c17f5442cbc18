package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A write has one of four answers: nil (it happened), ErrRefused (the
// condition failed: someone else was there), ErrThrottled (nothing happened),
// or any other error: unknown (it happened, did not, or still will). After
// unknown nothing is concluded; the item is read and judged.
var (
	ErrRefused   = errors.New("condition refused")
	ErrThrottled = errors.New("throttled")
)

// Unreadable is an answer beside what a read found: jobs that are stored, and cannot be
// understood, since they are damaged or a newer version wrote them. They stay so until
// somebody mends them, so the others do not wait for them; they are neither unread nor gone.
type Unreadable map[JobID]error

// Besides parts what a read of jobs answered into what it could not understand, which
// leaves the rest of the answer as it is, and any other error.
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

// Unlock moves jobs from u to found that only lack their secrets: they can be shown and changed, and not run.
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

// UnreadableApps is an answer beside what a read of apps found, as Unreadable is: apps by
// name that are stored, and cannot be understood.
type UnreadableApps map[string]error

// BesidesApps parts what a read of apps answered, as Besides does.
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

// Of is why an app cannot be read, for people; nil of one that is not among them.
func (u UnreadableApps) Of(name string) error {
	if err := u[name]; err != nil {
		return &Error{Code: CodeRefused, Reason: Say("app %s cannot be read: %s", name, Said(err)), Err: UnreadableApps{name: err}}
	}
	return nil
}

// Said is an error as an argument of a Text: an *Error is said in the language of the reader.
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

// Code is what kind of error reaches a caller. It maps to an HTTP status and a
// CLI exit code in one place each.
type Code string

const (
	CodeInvalid      Code = "invalid"      // the input is wrong; nothing was changed
	CodeNotFound     Code = "not-found"    // no such thing
	CodeConflict     Code = "conflict"     // it exists already, or somebody else changed it meanwhile
	CodeUnauthorized Code = "unauthorized" // no token or a wrong one
	CodeForbidden    Code = "forbidden"    // a token that may not do this
	CodeTooLarge     Code = "too-large"    // over a bound
	CodeRefused      Code = "refused"      // understood, and not done in this state
	CodeUnavailable  Code = "unavailable"  // passing: try again
	CodeInternal     Code = "internal"     // ours; its text stays in the log
)

// Text is a sentence for people. Its code is the sentence in English, in which the
// arguments stand as package fmt has it; package words says it in other languages by that
// code. An argument may be a Text itself, or an *Error: those are said in that language too.
type Text struct {
	code    string
	args    []any
	english string
}

// Say makes the text of a code and its arguments. The code is a constant: what package
// words has no line for is found by its test.
func Say(code string, args ...any) Text { return Text{code, args, fmt.Sprintf(code, args...)} }

// Phrase is the text of a few words that take no arguments and are data in English already: the
// name of what could not be read, a line of the API's document. They have no verbs: a % in them
// stands for itself.
func Phrase(english string) Text { return Text{code: english, english: english} }

// Code is what a table of another language knows the sentence by.
func (t Text) Code() string { return t.code }

func (t Text) Args() []any { return t.args }

// String is the sentence in English.
func (t Text) String() string { return t.english }

// Seen is the text for who sees only the apps that sees takes.
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

// JobNames are jobs in a Text, by app/name, and how many more there are.
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

// seen leaves the names of the apps that sees takes.
func (n JobNames) seen(sees func(app string) bool) JobNames {
	all := len(n.Names)
	n.Names = slices.DeleteFunc(slices.Clone(n.Names), func(name string) bool {
		app, _, _ := strings.Cut(name, "/")
		return !sees(app)
	})
	n.More += all - len(n.Names)
	return n
}

// Listed is texts one after the other, "a, b, c"; the zero Text of none.
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

// Error is an error for people: what was wrong, where, and what is allowed.
type Error struct {
	Code   Code
	Field  string // where: a path such as "schedule.cron"; may be empty
	Value  string // what was given, truncated to 200 bytes; may be empty, never a secret
	Reason Text   // what is wrong and what is allowed
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

// Invalid is an error about a field of the input; the reason is a code of a Text.
func Invalid(field, value, reason string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Value: Truncate(value), Reason: Say(reason, args...)}
}

// Truncate leaves of what was given as much as an error repeats.
func Truncate(value string) string {
	if len(value) > 200 {
		value = strings.ToValidUTF8(value[:200], "") + "…"
	}
	return value
}

// Errorf is an error of a code without a field; the format is the code of a Text.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: Say(format, args...)}
}

// CodeOf is the code that an error has for a caller: all that is neither an Error
// nor one of a store's answers is internal.
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

// Passing is what people are told of a store's answer that says: try again.
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

// Unread is what people are told of a strong read that left something out; nil of
// one that left nothing.
func Unread[T any](left []T, err error) error {
	if err == nil && len(left) > 0 {
		err = ErrThrottled
	}
	if err != nil {
		return Passing(err)
	}
	return nil
}
