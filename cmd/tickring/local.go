package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/awsclient"
	"github.com/tickring/tickring/internal/cfnoutputs"
	"github.com/tickring/tickring/server"
)

const demoFolder = "demo"

// env is a variable of the environment; empty if it is not set.
func (e *Env) env(name string) string {
	value, _ := e.Getenv(name)
	return value
}

// dataDir returns the data directory: the flag, else $TICKRING_DATA, else the platform's state directory.
func (e *Env) dataDir() (string, error) {
	if dir := cmp.Or(e.Data, e.env("TICKRING_DATA")); dir != "" {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return "", usagef("%s is a file: use its directory as the data directory: %s", dir, filepath.Dir(dir))
		}
		return dir, nil
	}
	if dir := e.userDir("LocalAppData", "XDG_STATE_HOME", ".local/state"); dir != "" {
		return dir, nil
	}
	return "", errors.New("the home directory is unknown: set the data directory with --data or TICKRING_DATA")
}

// userDir returns tickring's directory among the files of the user; empty if it is unknown. The variables have its parent directory on
// Windows, and where the XDG specification applies; inHome is the default there.
func (e *Env) userDir(windows, xdg, inHome string) string {
	parent := ""
	switch home := e.env("HOME"); {
	case runtime.GOOS == "windows":
		parent = e.env(windows)
	case runtime.GOOS != "darwin" && filepath.IsAbs(e.env(xdg)): // the specification ignores relative paths
		parent = e.env(xdg)
	case home != "" && runtime.GOOS == "darwin":
		parent = filepath.Join(home, "Library", "Application Support")
	case home != "":
		parent = filepath.Join(home, inHome)
	}
	if parent == "" {
		return ""
	}
	return filepath.Join(parent, "tickring")
}

// findServer returns the URL of the server and its token. The command line takes precedence over the environment, that over the
// context in use, and that over files in the data directory. If no server answers there, it uses a running demo.
func (e *Env) findServer() (endpoint string, token secret, err error) {
	if e.context != "" {
		token, err := e.contextToken()
		return e.Endpoint, token, err
	}
	given := secret{e.Token, "--token"}
	env := secret{e.env("TICKRING_TOKEN"), "TICKRING_TOKEN"}
	admin := secret{e.env("TICKRING_ADMIN_TOKEN"), "TICKRING_ADMIN_TOKEN"}
	endpoint = e.Endpoint
	if e.Data == "" {
		endpoint = cmp.Or(endpoint, e.env("TICKRING_ENDPOINT"))
	}
	switch {
	case endpoint != "":
		return endpoint, firstSecret(given, env, e.tokenOf(endpoint)), nil
	case e.Data != "":
		if _, err := e.dataDir(); err != nil {
			return "", secret{}, err
		}
		if endpoint = endpointIn(e.Data); endpoint == "" {
			return "", secret{}, &exitError{exitFailed, core.Errorf(core.CodeUnavailable,
				"no server has used the data directory %s: start one with: %s", e.Data, "tickring serve --data "+e.Data)}
		}
		return endpoint, firstSecret(given, fileSecret(e.Data), env, admin), nil
	}
	dir, err := e.dataDir()
	if err != nil {
		return "", secret{}, err
	}
	dirs := []string{dir, filepath.Join(dir, demoFolder)}
	if endpointIn(dirs[0]) == endpointIn(dirs[1]) && started(dirs[1]).After(started(dirs[0])) {
		slices.Reverse(dirs) // the server that started last has the address
	}
	for _, dir := range dirs {
		if endpoint := endpointIn(dir); endpoint != "" && unanswered(e.Ctx, endpoint) == nil {
			return endpoint, firstSecret(given, env, fileSecret(dir), admin), nil
		}
	}
	start := core.Say("%s", "tickring serve")
	if demo := filepath.Join(dir, demoFolder); endpointIn(dir) == "" && endpointIn(demo) != "" {
		start = core.Say("%s   (continues with the data in %s)", "tickring serve --demo", demo)
	}
	return "", secret{}, &exitError{exitFailed, core.Errorf(core.CodeUnavailable,
		"no server runs on this machine (data directory %s): start one with: %s\nor name another server: %s   "+
			"(or TICKRING_ENDPOINT and TICKRING_TOKEN)",
		dir, start, "tickring context set NAME --endpoint URL --token-file FILE")}
}

type secret struct{ text, from string }

func firstSecret(secrets ...secret) secret {
	for _, s := range secrets {
		if s.text != "" {
			return s
		}
	}
	return secret{}
}

func fileSecret(dir string) secret {
	path := filepath.Join(dir, server.TokenFile)
	return secret{readLine(path), path}
}

// tokenOf returns the token in the data directory if that directory belongs to endpoint, because a token must not reach another
// server.
func (e *Env) tokenOf(endpoint string) secret {
	dir, err := e.dataDir()
	if err != nil {
		return secret{}
	}
	for _, dir := range []string{dir, filepath.Join(dir, demoFolder)} {
		if endpointIn(dir) == strings.TrimSuffix(endpoint, "/") {
			return fileSecret(dir)
		}
	}
	return secret{}
}

// endpointIn is where the server of a data folder is or was; empty if there was none.
func endpointIn(dir string) string { return readLine(filepath.Join(dir, server.EndpointFile)) }

// started returns when the last server of a data directory started; zero if there was none.
func started(dir string) (at time.Time) {
	if info, err := os.Stat(filepath.Join(dir, server.EndpointFile)); err == nil {
		at = info.ModTime()
	}
	return at
}

// readLine is the text of a small file; empty if it cannot be read.
func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// unanswered returns why no server of ours answers at endpoint; nil if one does.
func unanswered(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := server.WhoIs(ctx, endpoint)
	return err
}

func (e *Env) api() (*client.Client, error) {
	if e.found != nil {
		return e.found, nil
	}
	endpoint, token, err := e.server()
	if err != nil {
		return nil, err
	}
	cl, err := client.New(endpoint, token.text, client.Config{MaxAnswer: e.most, Language: string(e.lang())})
	if err != nil {
		return nil, usagef("%w", err)
	}
	if base, ok := strings.CutSuffix(strings.TrimSuffix(endpoint, "/"), adminPath); ok {
		return nil, usagef("endpoint %q: remove %s, the path is for executors: %s", endpoint, adminPath, base)
	}
	if token.text == "" {
		if err := unanswered(e.Ctx, endpoint); err != nil {
			return nil, &exitError{exitFailed, core.Errorf(core.CodeUnavailable,
				"no tickring server answers at %s: %v\nis the server running? to start a server on this machine: %s",
				endpoint+e.on(), err, "tickring serve")}
		}
		hint := core.Say("set TICKRING_TOKEN")
		if e.context != "" {
			hint = core.Say("%s", e.setHint())
		}
		return nil, &exitError{exitRefused, core.Errorf(core.CodeUnauthorized, "no token for %s: %s", endpoint, hint)}
	}
	e.found, e.endpoint, e.tokenFrom = cl, endpoint, core.Say("%s", token.from)
	if core.CheckToken("", token.text) != nil {
		e.tokenFrom = core.Say("%s (%d characters, but server tokens have at least 20)", token.from, len(token.text))
	}
	return e.found, nil
}

// adminPath is where xxl-job's executors expect the paths that are theirs.
const adminPath = "/xxl-job-admin"

// conn is the environment of a command together with a client of the server.
type conn struct {
	*Env
	*client.Client
}

func (e *Env) connect() (*conn, error) {
	cl, err := e.api()
	return &conn{e, cl}, err
}

// server is where the server is, and the token for it: of a stack, or as
// findServer finds it.
func (e *Env) server() (endpoint string, token secret, err error) {
	of, err := e.stackMeant()
	if err != nil {
		return "", secret{}, err
	}
	if !of {
		return e.findServer()
	}
	endpoint = strings.TrimSuffix(e.outputs[cfnoutputs.Url], "/")
	if e.Token != "" {
		return endpoint, secret{e.Token, "--token"}, nil
	}
	text, err := e.aws.Secret(e.Ctx, e.outputs[cfnoutputs.TokenParameter])
	if awsclient.NotFound(err) { // of a new deployment: its API creates the parameter when it starts
		_, _ = server.WhoIs(e.Ctx, endpoint)
		text, err = e.aws.Secret(e.Ctx, e.outputs[cfnoutputs.TokenParameter])
	}
	return endpoint, secret{text, "the parameter " + e.outputs[cfnoutputs.TokenParameter]}, err
}

// serverURL returns the URL of the server, for uses that need no token.
func (e *Env) serverURL() (string, error) {
	of, err := e.stackMeant()
	if err != nil || of {
		return strings.TrimSuffix(e.outputs[cfnoutputs.Url], "/"), err
	}
	if e.context != "" {
		return e.Endpoint, nil
	}
	endpoint, _, err := e.findServer()
	return endpoint, err
}

func (e *Env) stackMeant() (bool, error) {
	if err := e.useContext(); err != nil {
		return false, err
	}
	name := e.stackName()
	if name == "" {
		return false, nil
	}
	for _, other := range []struct{ flag, value string }{{"--endpoint", e.Endpoint}, {"--data", e.Data}} {
		if other.value != "" {
			return false, usagef("--stack and %s: each selects a server: set only one of them", other.flag)
		}
	}
	if !cfnoutputs.ValidName(name) {
		return false, usagef("%q: not a stack name: letters, digits and -, starting with a letter", name)
	}
	return true, e.readStack(name)
}

// parameter is a secret in the parameter store beside the stack that is meant.
func (e *Env) parameter(name string) (string, error) {
	of, err := e.stackMeant()
	switch {
	case err != nil:
		return "", err
	case !of:
		return "", errors.New("parameters can be read only with a stack on AWS (--stack); use {env: NAME} or {file: PATH}")
	}
	return e.aws.Secret(e.Ctx, name)
}

func (e *Env) readStack(name string) (err error) {
	if e.outputs != nil {
		return nil
	}
	e.aws, err = awsclient.New(e.Ctx, awsclient.Options{Region: e.Region, Profile: e.Profile, Getenv: e.env})
	if err != nil {
		return err
	}
	found, err := e.aws.Outputs(e.Ctx, name)
	if err != nil {
		return err
	}
	if err := cfnoutputs.Outputs(found).Check(name); err != nil {
		return err
	}
	e.outputs = found
	return nil
}

// stackName returns the selected stack, or "" for a server outside of stacks. Another server on the command line takes precedence
// over the environment.
func (e *Env) stackName() string {
	if e.Stack == "" && e.Endpoint == "" && e.Data == "" && e.env("TICKRING_ENDPOINT") == "" {
		return e.env("TICKRING_STACK")
	}
	return e.Stack
}

// namedFile reads a file that a manifest names for a secret or a script, up to one byte over the limit of both. It rejects devices,
// which can be endless, and pipes, which can block.
func namedFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, core.MaxScript+1))
}
