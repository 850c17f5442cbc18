package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrRefused and ErrThrottled are the errors of a store write that changed nothing. ErrRefused means that the
// condition of the write was false, because another writer was first. ErrThrottled means that the store was
// overloaded. After any other error, the write may have happened or may still happen. Then the caller must read the
// item again.
var (
	ErrRefused   = errors.New("condition refused")
	ErrThrottled = errors.New("throttled")
	// ErrUnreadable is the cause of the errors of UnreadableJob and UnreadableApp. The record is damaged, or a newer version
	// wrote it. It stays unreadable until a user fixes it.
	ErrUnreadable = errors.New("unreadable")
)

// UnreadableJob returns the error for users if a read of the job failed with err, else nil.
func UnreadableJob(id JobID, err error) error {
	if err == nil {
		return nil
	}
	return unreadable(err, Say("job %d cannot be read: %s", id, Said(err)))
}

// UnreadableApp returns the error for users if a read of the app failed with err, else nil.
func UnreadableApp(name string, err error) error {
	if err == nil {
		return nil
	}
	return unreadable(err, Say("app %s cannot be read: %s", name, Said(err)))
}

func unreadable(err error, reason Text) error {
	if errors.Is(err, ErrThrottled) {
		return Retryable(err)
	}
	return &Error{Code: CodeRefused, Reason: reason, Err: fmt.Errorf("%w: %w", ErrUnreadable, err)}
}

// Said returns err as an argument for Say. If err wraps an *Error, Said returns the *Error, which is translated with
// the Text. Otherwise, it returns err itself.
func Said(err error) any {
	if e, is := errors.AsType[*Error](err); is {
		return e
	}
	return err
}

// Code is the kind of an error. The API maps each Code to an HTTP status, and the CLI maps each Code to an exit code.
type Code string

const (
	CodeInvalid      Code = "invalid"      // the input is wrong; no change was made
	CodeNotFound     Code = "not-found"    // the object does not exist
	CodeConflict     Code = "conflict"     // the object already exists, or another writer changed it
	CodeUnauthorized Code = "unauthorized" // the token is missing or wrong
	CodeForbidden    Code = "forbidden"    // the token lacks the permission
	CodeTooLarge     Code = "too-large"    // the input exceeds a limit
	CodeRefused      Code = "refused"      // the input is valid, but the request is not possible in the current state
	CodeUnavailable  Code = "unavailable"  // a temporary failure: the caller can retry
	CodeInternal     Code = "internal"     // a bug or a failure of the server; only the log has its text
)

// Text is a translatable sentence. Its code is an English format string for package fmt, and also the key in the
// translation catalogs of package words. Arguments that are Texts or *Errors are translated too.
type Text struct {
	code    string
	args    []any
	english string
}

// Say returns the Text of a code and its arguments. The code must be a constant, because a test in package words
// searches the source for codes without a translation.
func Say(code string, args ...any) Text { return Text{code, args, fmt.Sprintf(code, args...)} }

// Phrase returns a Text without arguments, for English data such as a line of the API document. A % has no
// special meaning.
func Phrase(english string) Text { return Text{code: english, english: english} }

// Code returns the key in the translation catalogs.
func (t Text) Code() string { return t.code }

func (t Text) Args() []any { return t.args }

// String returns the English sentence.
func (t Text) String() string { return t.english }

// Seen returns t without the names of jobs that the user cannot see. The parameter sees reports whether the user can see
// an app.
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

// JobNames is an argument of a Text that lists jobs.
type JobNames struct {
	Names   []string // app/name of each listed job
	More    int      // number of further jobs, which are not listed
	Between string   // separator between two names
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

// Listed joins texts as "a, b, c". It returns the zero Text for an empty list.
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

// Error is an error for users. An Error names the wrong field, the problem and the allowed values.
type Error struct {
	Code   Code
	Field  string // path of the wrong field, such as "schedule.cron"; may be empty
	Value  string // rejected input, truncated to 200 bytes; may be empty, never a secret
	Reason Text   // the problem and the allowed values
	Err    error  // cause; only the log shows it
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

// Invalid returns the error for an input field with a wrong value. The error's Reason is Say(reason, args...).
func Invalid(field, value, reason string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Value: Truncate(value), Reason: Say(reason, args...)}
}

// Truncate shortens an input value to 200 bytes and an ellipsis, for an error message.
func Truncate(value string) string {
	if len(value) > 200 {
		value = strings.ToValidUTF8(value[:200], "") + "…"
	}
	return value
}

// Errorf returns an Error without a field. The error's Reason is Say(format, args...).
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: Say(format, args...)}
}

// CodeOf returns the Code of the Error that err wraps. CodeOf returns CodeUnavailable for ErrThrottled, CodeConflict
// for ErrRefused, and CodeInternal for all other errors.
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

// Retryable converts the error of a store read into an Error for users with CodeUnavailable. If err wraps an Error,
// Retryable returns that Error. If err is nil, it returns nil.
func Retryable(err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	}
	return &Error{Code: CodeUnavailable, Reason: Say("the database did not answer: try again"), Err: err}
}
