package core

import (
	"errors"
	"fmt"
	"maps"
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
)

// Unreadable maps the ID of each stored job that a read could not decode to the error. An unreadable job is damaged,
// or a newer version wrote the job. The job stays unreadable until a user fixes it. The read still returns all other
// jobs.
type Unreadable map[JobID]error

// SplitUnreadable splits err, the error of a job read. If err is an Unreadable, SplitUnreadable returns it and a nil
// error, and the jobs that were read are valid. Otherwise, it returns err.
func SplitUnreadable(err error) (Unreadable, error) {
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

// Unlock removes from u each job with secrets that cannot be decrypted, and calls found with the job. Users can view
// and change these jobs, but the jobs cannot run.
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

// UnreadableApps maps the name of each stored app that a read could not decode to the error.
type UnreadableApps map[string]error

// BesidesApps splits err, the error of an app read. If err is an UnreadableApps, BesidesApps returns it and a nil
// error, and the apps that were read are valid. Otherwise, it returns err.
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

// Of returns the error for users about the named app; nil if the app is not in u.
func (u UnreadableApps) Of(name string) error {
	if err := u[name]; err != nil {
		return &Error{Code: CodeRefused, Reason: Say("app %s cannot be read: %s", name, Said(err)), Err: UnreadableApps{name: err}}
	}
	return nil
}

// Said returns err as an argument for Say. If err wraps an *Error, Said returns the *Error, which is translated with
// the Text. Otherwise, it returns err itself.
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

// Retryable converts the error of a store read into an Error for users: unreadable records give CodeRefused, and
// other failures CodeUnavailable. If err wraps an Error, Retryable returns that Error. If err is nil, it returns nil.
func Retryable(err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	}
	if bad, _ := SplitUnreadable(err); bad != nil {
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
	return &Error{Code: CodeUnavailable, Reason: Say("the database did not answer: try again"), Err: err}
}

// Unread returns the error for users if a strongly consistent read failed with the error err, or did not return the items
// in the parameter left. It returns nil if the read is complete.
func Unread[T any](left []T, err error) error {
	if err == nil && len(left) > 0 {
		err = ErrThrottled
	}
	return Retryable(err)
}
