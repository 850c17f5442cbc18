package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Limits of request bodies. MaxJob allows for 64 KB of params and 256 KB of script, where JSON can need six bytes for
// one byte. One Lambda function can process MaxApplyJobs jobs well within the timeout of an HTTP API.
const (
	MaxBody      = 1 << 20
	MaxJob       = 2 << 20
	MaxApply     = 4 << 20
	MaxApplyJobs = 500
	MaxApplyApps = 100
)

// decode reads the body into v: at most limit bytes of JSON without unknown fields. Its errors name the path. It
// counts lists and maps before it decodes them, because an item of three bytes can take a thousand in memory.
func decode(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	data, done, err := readBody(w, r, limit)
	defer done()
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return core.Errorf(core.CodeTooLarge, "the body is over %d MiB", limit>>20)
		}
		if errors.Is(err, errNoPlace) {
			return err
		}
		return core.Errorf(core.CodeInvalid, "the body is incomplete")
	}
	c := checker{json.NewDecoder(bytes.NewReader(data))}
	c.dec.UseNumber()
	if err := c.value("", reflect.TypeOf(v), 0); err != nil {
		return err
	}
	if _, err := c.dec.Token(); err != io.EOF {
		return core.Errorf(core.CodeInvalid, "the body has extra data after its end, at byte %d", c.dec.InputOffset())
	}
	if json.Unmarshal(data, v) != nil {
		return core.Errorf(core.CodeInvalid, "the body does not have the expected format")
	}
	return nil
}

// bodyFor is the time that a body may take to arrive. longPlaces is the number of long bodies held at once for
// callers without an admin token. One user, or one app's code, gets half of them. waitFor is the longest wait for a
// place.
const (
	bodyFor    = 10 * time.Second
	longBody   = 32 << 10
	longPlaces = 8
	waitFor    = 5 * time.Second
)

var errNoPlace = core.Errorf(core.CodeUnavailable, "too many long requests are in progress: send the request again")

// readBody reads a body; the caller calls done when it has finished with it. To bound memory, it holds few long
// bodies at once for callers without an admin token.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (data []byte, done func(), err error) {
	// In a function this fails, but there the whole body has already arrived.
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyFor))
	defer func() {
		if err == nil { // else net/http would wait for the rest of the body forever
			_ = c.SetReadDeadline(time.Time{}) // it would end a longer request
		}
	}()
	body, done := http.MaxBytesReader(w, r.Body, limit), func() {}
	of := callerOf(r)
	if of.long == nil {
		data, err = io.ReadAll(body)
		return data, done, err
	}
	data, err = io.ReadAll(io.LimitReader(body, longBody))
	if err != nil || len(data) < longBody {
		return data, done, err
	}
	who := of.App + "/" + of.Name
	if !of.long.Acquire(r.Context(), who, waitFor) {
		return nil, done, errNoPlace
	}
	more, err := io.ReadAll(body)
	return append(data, more...), func() { of.long.Release(who) }, err
}

// limits has the longest body of each operation that takes more than MaxBody.
var limits = map[string]int64{"POST /v1/apply": MaxApply, "PUT /v1/jobs/{app}/{name}": MaxJob, "PUT /v1/jobs/{app}/{name}/script": MaxJob}

// body reads the body of an operation into v. Without a body that is not required, v stays as it is.
func (s *server) body(w http.ResponseWriter, r *http.Request, required bool, v any) error {
	if !required && r.ContentLength == 0 {
		return nil
	}
	return decode(w, r, cmp.Or(limits[r.Pattern], MaxBody), v)
}

// asInPath sets a field of the body to its value in the path, and rejects another value.
func asInPath(field string, body *string, path string) error {
	if *body != "" && *body != path {
		return core.Invalid(field, *body, "the value differs from the value in the path, %s", path)
	}
	*body = path
	return nil
}

// checker reads JSON along with the type to decode it into, and finds the first value that does not fit. A list or
// map with more entries than api/openapi.yaml allows does not fit; the tag "most" of its field has that number.
type checker struct{ dec *json.Decoder }

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

func (c checker) syntax(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return core.Errorf(core.CodeInvalid, "the body is not JSON: the body ends too early, after %d bytes", c.dec.InputOffset())
	}
	return core.Errorf(core.CodeInvalid, "the body is not JSON: the error is near byte %d", c.dec.InputOffset())
}

func (c checker) value(path string, t reflect.Type, most int) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == rawType {
		var skip json.RawMessage
		if err := c.dec.Decode(&skip); err != nil {
			return c.syntax(err)
		}
		return nil
	}
	token, err := c.dec.Token()
	if err != nil {
		return c.syntax(err)
	}
	if token == nil {
		return nil // null leaves the default
	}
	switch {
	case t == timeType:
		text, ok := token.(string)
		if _, err := time.Parse(time.RFC3339, text); !ok || err != nil {
			return core.Invalid(path, fmt.Sprint(token), "write a time as 2026-11-20T02:30:00Z, or with an offset such as +01:00")
		}
		return checkTime(path, text)
	case t.Kind() == reflect.Struct:
		return c.object(path, t, token)
	case t.Kind() == reflect.Map:
		if token != json.Delim('{') {
			return wrongType(path, token, core.Say("an object"))
		}
		for i := 0; c.dec.More(); i++ {
			if i == most {
				return tooMany(path, most)
			}
			key, err := c.dec.Token()
			if err != nil {
				return c.syntax(err)
			}
			if err := c.value(join(path, key.(string)), t.Elem(), 0); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Slice:
		if token != json.Delim('[') {
			return wrongType(path, token, core.Say("a list"))
		}
		for i := 0; c.dec.More(); i++ {
			if i == most {
				return tooMany(path, most)
			}
			if err := c.value(fmt.Sprintf("%s[%d]", path, i), t.Elem(), 0); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.String:
		if _, ok := token.(string); !ok {
			return wrongType(path, token, core.Say("a text"))
		}
		return nil
	case t.Kind() == reflect.Bool:
		if _, ok := token.(bool); !ok {
			return wrongType(path, token, core.Say("true or false"))
		}
		return nil
	default:
		n, ok := token.(json.Number)
		if !ok {
			return wrongType(path, token, core.Say("a whole number"))
		}
		if _, err := strconv.ParseInt(n.String(), 10, t.Bits()); err != nil {
			return core.Invalid(path, n.String(), "a whole number of %d bits is expected", t.Bits())
		}
		return nil
	}
	if _, err := c.dec.Token(); err != nil { // the closing brace
		return c.syntax(err)
	}
	return nil
}

// checkTime rejects times up to the beginning of 1970: the zero time and the zero instant would count as absent.
func checkTime(field, text string) error {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil && t.Unix() <= 0 {
			return core.Invalid(field, text, "the time must be later than 1970-01-01T00:00:00Z")
		}
	}
	return nil
}

func (c checker) object(path string, t reflect.Type, token json.Token) error {
	if token != json.Delim('{') {
		return wrongType(path, token, core.Say("an object"))
	}
	for c.dec.More() {
		token, err := c.dec.Token()
		if err != nil {
			return c.syntax(err)
		}
		key := token.(string)
		nameOf := func(f *reflect.StructField) string { name, _, _ := strings.Cut(f.Tag.Get("json"), ","); return name }
		var field reflect.Type
		most := 0
		for f := range t.Fields() {
			if strings.EqualFold(nameOf(&f), key) { // as encoding/json does
				field = f.Type
				most, _ = strconv.Atoi(f.Tag.Get("most"))
			}
		}
		if field == nil {
			var names []string
			for f := range t.Fields() {
				names = append(names, nameOf(&f))
			}
			slices.Sort(names)
			return core.Invalid(join(path, key), "", "unknown field; allowed values: %s", strings.Join(names, ", "))
		}
		if err := c.value(join(path, key), field, most); err != nil {
			return err
		}
	}
	if _, err := c.dec.Token(); err != nil {
		return c.syntax(err)
	}
	return nil
}

func tooMany(path string, most int) error {
	return core.Invalid(path, "", "at most %d are allowed", most)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func wrongType(path string, token json.Token, want core.Text) error {
	got, value := core.Say("a text"), fmt.Sprint(token)
	switch t := token.(type) {
	case json.Number:
		got = core.Say("a number")
	case bool:
		got = core.Say("true or false")
	case json.Delim:
		got, value = core.Say("an object"), ""
		if t == '[' {
			got = core.Say("a list")
		}
	}
	e := core.Invalid(path, value, "expected %s, not %s", want, got)
	if path == "" {
		e.Reason = core.Say("the body: %s", e.Reason)
	}
	// An invalid secret is still a secret.
	if strings.HasSuffix(path, "token") || strings.Contains(path, "call.") {
		e.Value = ""
	}
	return e
}
