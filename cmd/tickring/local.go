package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/awsask"
	"github.com/tickring/tickring/internal/stack"
	"github.com/tickring/tickring/server"
)

// The files by which a server on this machine is found.
const (
	endpointFile = "endpoint"    // the URL that it listens on
	tokenFile    = "admin-token" // what it lets in
	demoFolder   = "demo"        // where serve --demo keeps its data
)

// dataDir is the data folder: the flag, else $TICKRING_DATA, else the
// platform's state folder.
func dataDir(flag string, getenv func(string) (string, bool)) (string, error) {
	if flag != "" {
		return flag, nil
	}
	env := func(name string) string {
		value, _ := getenv(name)
		return value
	}
	if dir := env("TICKRING_DATA"); dir != "" {
		return dir, nil
	}
	home := env("HOME")
	switch runtime.GOOS {
	case "windows":
		if dir := env("LocalAppData"); dir != "" {
			return filepath.Join(dir, "tickring"), nil
		}
	case "darwin":
		if home != "" {
			return filepath.Join(home, "Library", "Application Support", "tickring"), nil
		}
	default:
		// As its specification says, a relative one does not count.
		if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "tickring"), nil
		}
		if home != "" {
			return filepath.Join(home, ".local", "state", "tickring"), nil
		}
	}
	return "", errors.New("there is no home folder: say where the data is with --data or TICKRING_DATA")
}

// findServer is where the server is, and the token for it. What is said on the
// command line beats the environment, and that beats what is found in the data
// folder. When nothing answers there, a running demo is taken.
func findServer(ctx context.Context, g *Globals, getenv func(string) (string, bool)) (endpoint string, token secret, err error) {
	envEndpoint, _ := getenv("TICKRING_ENDPOINT")
	given := secret{g.Token, "--token"}
	envToken, _ := getenv("TICKRING_TOKEN")
	env := secret{envToken, "TICKRING_TOKEN"}
	adminToken := secret{adminToken(getenv), "TICKRING_ADMIN_TOKEN"}
	switch {
	case g.Endpoint != "":
		return g.Endpoint, firstSecret(given, env, tokenOf(g, g.Endpoint, getenv)), nil
	case g.Data != "":
		endpoint := readLine(filepath.Join(g.Data, endpointFile))
		if endpoint == "" {
			return "", secret{}, fmt.Errorf("no server has run on the data folder %s: start one with: tickring serve --data %s", g.Data, g.Data)
		}
		return endpoint, firstSecret(given, fileSecret(g.Data), env, adminToken), nil
	case envEndpoint != "":
		return envEndpoint, firstSecret(given, env, tokenOf(g, envEndpoint, getenv)), nil
	}
	dir, err := dataDir("", getenv)
	if err != nil {
		return "", secret{}, err
	}
	for _, dir := range []string{dir, filepath.Join(dir, demoFolder)} {
		endpoint := readLine(filepath.Join(dir, endpointFile))
		if endpoint != "" && answers(ctx, endpoint) {
			return endpoint, firstSecret(given, env, fileSecret(dir), adminToken), nil
		}
	}
	start := "tickring serve"
	if readLine(filepath.Join(dir, endpointFile)) == "" && readLine(filepath.Join(dir, demoFolder, endpointFile)) != "" {
		start += " --demo   (it goes on with what is in " + filepath.Join(dir, demoFolder) + ")"
	}
	return "", secret{}, fmt.Errorf("no server runs on this machine (data folder %s): start one with: %s\nor set TICKRING_ENDPOINT and "+
		"TICKRING_TOKEN for one elsewhere", dir, start)
}

// secret is a token and where it was found.
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
	path := filepath.Join(dir, tokenFile)
	return secret{readLine(path), path}
}

// tokenOf is the token in the data folder, if that is the folder of endpoint: a
// token is not sent to anybody else.
func tokenOf(g *Globals, endpoint string, getenv func(string) (string, bool)) secret {
	dir, err := dataDir(g.Data, getenv)
	if err != nil {
		return secret{}
	}
	for _, dir := range []string{dir, filepath.Join(dir, demoFolder)} {
		if readLine(filepath.Join(dir, endpointFile)) == strings.TrimSuffix(endpoint, "/") {
			return fileSecret(dir)
		}
	}
	return secret{}
}

func adminToken(getenv func(string) (string, bool)) string {
	token, _ := getenv("TICKRING_ADMIN_TOKEN")
	return token
}

// readLine is the text of a small file; empty if it cannot be read.
func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// answers reports whether a server of ours answers at endpoint: what is there
// now may be another program, after a server that is gone.
func answers(ctx context.Context, endpoint string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.Header.Get(server.HeaderVersion) != ""
}

// api is the client of the server that the flags and the environment mean.
func (e *Env) api() (*client.Client, error) {
	if e.found != nil {
		return e.found, nil
	}
	endpoint, token, err := e.server()
	if err != nil {
		return nil, err
	}
	if token.text == "" {
		return nil, &exitError{exitRefused, fmt.Errorf("there is no token for %s: set TICKRING_TOKEN", endpoint)}
	}
	e.endpoint, e.tokenFrom = endpoint, token.from
	e.found, err = client.New(endpoint, token.text, client.Config{Actor: e.actor()})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return e.found, nil
}

// conn is what a command has of the world, and the server that it asks.
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
	name := stackName(e.Globals, e.Getenv)
	if name == "" {
		return findServer(e.Ctx, e.Globals, e.Getenv)
	}
	for _, other := range []struct{ flag, value string }{{"--endpoint", e.Endpoint}, {"--data", e.Data}} {
		if other.value != "" {
			return "", secret{}, usagef("--stack and %s: each says where the server is; give one of them", other.flag)
		}
	}
	if !stack.ValidName(name) {
		return "", secret{}, usagef("%q is no name of a stack: letters, digits and -, a letter first", name)
	}
	if err := e.readStack(name); err != nil {
		return "", secret{}, err
	}
	endpoint = strings.TrimSuffix(e.outputs[stack.Url], "/")
	if e.Token != "" {
		return endpoint, secret{e.Token, "--token"}, nil
	}
	text, err := e.aws.Secret(e.Ctx, e.outputs[stack.TokenParameter])
	return endpoint, secret{text, "the parameter " + e.outputs[stack.TokenParameter]}, err
}

// readStack reads the outputs of a stack, once.
func (e *Env) readStack(name string) (err error) {
	if e.outputs != nil {
		return nil
	}
	e.aws, err = awsask.New(e.Ctx, awsask.Options{Region: e.Region, Profile: e.Profile, Getenv: func(name string) string {
		v, _ := e.Getenv(name)
		return v
	}})
	if err != nil {
		return err
	}
	found, err := e.aws.Outputs(e.Ctx, name)
	if err != nil {
		return err
	}
	if err := stack.Outputs(found).Check(name); err != nil {
		return err
	}
	e.outputs = found
	return nil
}

// stackName is the stack that is meant; empty for a server that is not one. What
// the command line says of another server beats the environment.
func stackName(g *Globals, getenv func(string) (string, bool)) string {
	if g.Stack != "" {
		return g.Stack
	}
	if env, _ := getenv("TICKRING_STACK"); env != "" && g.Endpoint == "" && g.Data == "" {
		if endpoint, _ := getenv("TICKRING_ENDPOINT"); endpoint == "" {
			return env
		}
	}
	return ""
}

// actor is who asks: the name of the user on this machine.
func (e *Env) actor() string {
	name, _ := e.Getenv("USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
	return cmp.Or(name[:min(len(name), 64)], "cli")
}
