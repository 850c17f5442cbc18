package lambdaboot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// fakeParams is SSM in memory.
type fakeParams struct {
	values map[string]string
	err    error
	// perSecond, if any, is how many questions of all callers are answered in a
	// second: 40 in an account by default (AWS quotas, "GetParameter throughput").
	perSecond int

	refuses string // name that cannot be stored

	mu     sync.Mutex
	asked  []string
	second time.Time
	used   int
}

func (f *fakeParams) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, *in.Name)
	if now := time.Now().Truncate(time.Second); !now.Equal(f.second) {
		f.second, f.used = now, 0
	}
	f.used++
	v, there := f.values[*in.Name]
	switch {
	case f.err != nil:
		return nil, f.err
	case f.perSecond > 0 && f.used > f.perSecond:
		return nil, &smithy.GenericAPIError{Code: "ThrottlingException", Message: "Rate exceeded"}
	case !there:
		return nil, &types.ParameterNotFound{}
	case !aws.ToBool(in.WithDecryption):
		v = "AQICAHh="
	}
	return &ssm.GetParameterOutput{Parameter: &types.Parameter{Name: in.Name, Value: &v}}, nil
}

func (f *fakeParams) PutParameter(_ context.Context, in *ssm.PutParameterInput, _ ...func(*ssm.Options)) (*ssm.PutParameterOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Type != types.ParameterTypeSecureString || aws.ToString(in.KeyId) != "the-kms-key" {
		return nil, fmt.Errorf("%+v", in)
	}
	if *in.Name == f.refuses {
		return nil, errors.New("AccessDenied")
	}
	if _, there := f.values[*in.Name]; there && !aws.ToBool(in.Overwrite) {
		return nil, &types.ParameterAlreadyExists{}
	}
	f.values[*in.Name] = *in.Value
	return &ssm.PutParameterOutput{}, nil
}

// started returns the configuration of a function that starts with these variables.
func (f *fakeParams) started(t *testing.T, blank func(context.Context) (bool, error), vars ...string) *Config {
	t.Helper()
	c, err := Read(with(vars...), Needs{})
	check.OK(t, err)
	c.secrets(f, blank)
	return &c
}

// TestSecretKeyComesFromParameter: the parameter that functions create is a valid key. An older process reads a rotated
// key when it meets a secret of that key; an unreadable parameter is a temporary error, not a locked secret.
func TestSecretKeyComesFromParameter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		params := &fakeParams{values: map[string]string{"/t/secret-key": "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ"}}
		box := func() *secretbox.Box {
			return params.started(t, isBlank, "TICKRING_SECRET_KEY_PARAM", "/t/secret-key", "TICKRING_SECRET_KEY_KMS", "the-kms-key").Box
		}
		app := core.App{Name: "shop", Token: "token-of-shop"}
		early, api := box(), box()
		sealed, err := secretbox.Seal(early, app)
		if err != nil || strings.Contains(sealed.Token, app.Token) {
			t.Fatalf("%q, %v", sealed.Token, err)
		}
		check.Call(t)(api.Begin(t.Context(), true))
		if sealed, err = secretbox.Seal(api, app); err != nil {
			t.Fatal(err)
		}
		if opened, err := secretbox.Open(early, sealed); err != nil || opened.Token != app.Token {
			t.Errorf("a process of before the rotation reads %q, %v", opened.Token, err)
		}
		params.err = &smithy.GenericAPIError{Code: "ThrottlingException"}
		if _, err := secretbox.Open(box(), sealed); !errors.Is(err, core.ErrThrottled) {
			t.Errorf("while the parameter cannot be read: %v", err)
		}
		params.err, params.values = nil, nil
		if _, err := secretbox.Open(box(), sealed); core.CodeOf(err) != core.CodeRefused || !strings.Contains(err.Error(), "/t/secret-key") {
			t.Errorf("without the parameter: %v", err)
		}
	})
}

func isBlank(context.Context) (bool, error) { return true, nil }

// TestDeletedSecretKeyIsNotReplaced: while there are records, no function creates a secret key, even if another parameter
// is missing. The error names the parameter. Older processes keep the key; a restored parameter is used.
func TestDeletedSecretKeyIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		params := &fakeParams{values: map[string]string{}}
		blank, wrong := true, error(nil)
		tick := func() *Config {
			return params.started(t, func(context.Context) (bool, error) { return blank, wrong },
				"TICKRING_ADMIN_TOKEN_PARAM", "/t/admin-token", "TICKRING_SECRET_KEY_PARAM", "/t/secret-key",
				"TICKRING_SECRET_KEY_KMS", "the-kms-key", "TICKRING_CREATE_PARAMS", "/t/secret-key,/t/admin-token")
		}
		app := core.App{Name: "shop", Token: "token-of-shop"}
		early := tick().Box
		sealed, err := secretbox.Seal(early, app)
		check.OK(t, err)
		kept := params.values["/t/secret-key"]
		clear(params.values)
		blank = false
		for range 2 {
			_, err = secretbox.Open(tick().Box, sealed)
			if core.CodeOf(err) != core.CodeRefused || !strings.Contains(err.Error(), "the parameter /t/secret-key does not exist") {
				t.Errorf("without the parameter: %v", err)
			}
			if _, is := params.values["/t/secret-key"]; is || params.values["/t/admin-token"] == "" {
				t.Errorf("parameters are %v", params.values)
			}
		}
		time.Sleep(time.Minute)
		if again, err := secretbox.Seal(early, app); err != nil {
			t.Errorf("a process that has the key: %v", err)
		} else if params.values["/t/secret-key"] = kept; err == nil {
			sealed = again
		}
		if opened, err := secretbox.Open(tick().Box, sealed); err != nil || opened.Token != app.Token {
			t.Errorf("restored: %q, %v", opened.Token, err)
		}
		clear(params.values)
		blank, wrong = true, fmt.Errorf("table state: %w", core.ErrThrottled)
		if _, err := secretbox.Open(tick().Box, sealed); !errors.Is(err, core.ErrThrottled) || len(params.values) > 0 {
			t.Errorf("while the tables cannot be read: %v", err)
		}
	})
}

// TestMissingParametersAreCreated: a function with that permission creates the missing parameters, the secret key last.
// The next start completes an interrupted one. Existing values stay. Other functions fail until then.
func TestMissingParametersAreCreated(t *testing.T) {
	params := &fakeParams{values: map[string]string{}, refuses: "/t/admin-token"}
	started := func(vars ...string) *Config {
		return params.started(t, isBlank, append(vars, "TICKRING_SECRET_KEY_PARAM", "/t/secret-key", "TICKRING_SECRET_KEY_KMS", "the-kms-key")...)
	}
	creator := func() *Config {
		return started("TICKRING_ADMIN_TOKEN_PARAM", "/t/admin-token", "TICKRING_CREATE_PARAMS", "/t/report-key,/t/admin-token,/t/secret-key")
	}
	err := creator().Box.Load(t.Context())
	report := params.values["/t/report-key"]
	if len(params.values) != 1 || report == "" {
		t.Errorf("%v, %d parameters", err, len(params.values))
	}
	texts := golden.New(t)
	texts.Equal(t, "cannot be created", fmt.Sprint(err))
	texts.Equal(t, "a function that creates none", fmt.Sprint(started().Box.Load(t.Context())))
	params.refuses = ""
	api := creator()
	if err := api.Box.Load(t.Context()); err != nil || len(params.values) != 3 || params.values["/t/report-key"] != report {
		t.Errorf("%v, %d parameters", err, len(params.values))
	}
	if token, err := api.Token(t.Context()); err != nil || len(token) < 40 || token == report || token == params.values["/t/secret-key"] {
		t.Errorf("%d characters, %v", len(token), err)
	}
}

func keyOf(t *testing.T, c *Config) string {
	t.Helper()
	key, err := c.ReportKey(t.Context())
	check.OK(t, err)
	return string(key)
}

// TestSecrets: a function reads only its configured secrets, each once, when it first needs it.
func TestSecrets(t *testing.T) {
	params := &fakeParams{values: map[string]string{"/t/admin-token": "the-admin-token-of-here", "/t/report-key": "the-report-key-of-here"}}
	started := func(vars ...string) *Config {
		before := len(params.asked)
		c := params.started(t, isBlank, vars...)
		if len(params.asked) > before {
			t.Errorf("asked for %q at its start", params.asked[before:])
		}
		return c
	}
	sender := started("TICKRING_REPORT_KEY_PARAM", "/t/report-key")
	key := keyOf(t, sender)
	if again := keyOf(t, sender); again != key || !sender.Signs() || !slices.Equal(params.asked, []string{"/t/report-key"}) {
		t.Errorf("asked for %q", params.asked)
	}
	if token, err := sender.Token(t.Context()); token != "" || err != nil {
		t.Errorf("has the token %q, %v", token, err)
	}
	params.asked = nil
	all := started("TICKRING_REPORT_KEY_PARAM", "/t/report-key", "TICKRING_ADMIN_TOKEN_PARAM", "/t/admin-token")
	if token, err := all.Token(t.Context()); err != nil || token != "the-admin-token-of-here" {
		t.Errorf("token %q, %v", token, err)
	}
	// A report is verified with the key of the function that requested it.
	check.Equal(t, keyOf(t, all), key, "two functions with one report key sign differently")
	if keyOf(t, &Config{AdminToken: "the-admin-token-of-here"}) == key {
		t.Error("reports are signed with the admin token, though there is a key for them")
	}
	params.asked = nil
	if alone := started("TICKRING_ADMIN_TOKEN_PARAM", "/t/admin-token"); keyOf(t, alone) !=
		keyOf(t, &Config{AdminToken: "the-admin-token-of-here"}) {
		t.Error("without a report key reports are not signed by the admin token")
	}
	if none := started(); none.Signs() {
		t.Error("signs without a key")
	}
}

// TestColdStarts: an account answers 40 reads a second. Three hundred functions that start at once all get their secret
// before an invocation ends.
func TestColdStarts(t *testing.T) {
	const functions, invocation = 300, 28 * time.Second
	synctest.Test(t, func(t *testing.T) {
		params := &fakeParams{values: map[string]string{"/t/report-key": "the-report-key-of-here"}, perSecond: 40}
		began := time.Now()
		took := make([]time.Duration, functions)
		var all sync.WaitGroup
		for i := range functions {
			all.Go(func() {
				c := Config{Params: Params{ReportKey: "/t/report-key"}}
				c.secrets(params, isBlank)
				ctx, cancel := context.WithTimeout(t.Context(), invocation)
				defer cancel()
				if _, err := c.ReportKey(ctx); err != nil {
					t.Errorf("function %d: %v", i, err)
				}
				took[i] = time.Since(began)
			})
		}
		all.Wait()
		if last, atBest := slices.Max(took), functions/40*time.Second; last > 2*atBest {
			t.Errorf("the last has its secret after %s; %s would do", last, atBest)
		} else {
			t.Logf("the last after %s, %d questions", last, len(params.asked))
		}
		if len(params.asked) > 10*functions {
			t.Errorf("%d questions: they keep the account from answering", len(params.asked))
		}
	})
}

// TestSecretIsAskedForByOne: if many callers in one process need a secret, one reads it. A caller that gives up gets an
// error; the next one reads again.
func TestSecretIsAskedForByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		params := &fakeParams{values: map[string]string{"/t/report-key": "the-report-key-of-here"},
			err: &smithy.GenericAPIError{Code: "ThrottlingException"}}
		c := Config{Params: Params{ReportKey: "/t/report-key"}}
		c.secrets(params, isBlank)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				if _, err := c.ReportKey(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "/t/report-key") {
					t.Errorf("%v", err)
				}
			})
		}
		all.Wait()
		if n := len(params.asked); n < 3 || n > 10 {
			t.Errorf("asked %d times in 10 s", n)
		}
		params.err = nil
		if keyOf(t, &c) == "" {
			t.Error("no key")
		}
	})
}

func TestSecretsMissing(t *testing.T) {
	texts := golden.New(t)
	for name, params := range map[string]*fakeParams{
		"not there":   {},
		"short":       {values: map[string]string{"/t/admin-token": "x"}},
		"not allowed": {err: errors.New("AccessDenied")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Params: Params{AdminToken: "/t/admin-token"}}
				cfg.secrets(params, isBlank)
				began := time.Now()
				for range 3 { // reads only once, without a wait
					_, err := cfg.Token(t.Context())
					texts.Equal(t, name, fmt.Sprint(err))
				}
				if len(params.asked) != 1 || time.Since(began) > 0 {
					t.Errorf("asked %d times in %s", len(params.asked), time.Since(began))
				}
				params.err, params.values = nil, map[string]string{"/t/admin-token": "the-admin-token-of-here"}
				time.Sleep(time.Second) // in the bubble: a permanent error is not retried at once
				if token, err := cfg.Token(t.Context()); token != "the-admin-token-of-here" || err != nil {
					t.Errorf("once it exists: %q, %v", token, err)
				}
			})
		})
	}
}

// hangsOnce does not answer the first read.
type hangsOnce struct {
	fakeParams
	began bool
}

func (f *hangsOnce) GetParameter(ctx context.Context, in *ssm.GetParameterInput, o ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	if !f.began {
		f.began = true
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.fakeParams.GetParameter(ctx, in, o...)
}

// TestSecretOfACallerThatLeaves: a client that disconnects causes no failure for others.
func TestSecretOfACallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(&hangsOnce{fakeParams: fakeParams{values: map[string]string{"/x": "token-of-an-administrator"}}}, "/x", nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := s.get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("it left, and got %v", err)
		}
		if v, err := s.get(t.Context()); err != nil || v != "token-of-an-administrator" {
			t.Errorf("the next got %q, %v", v, err)
		}
	})
}
