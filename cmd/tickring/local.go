package main

import (
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
func findServer(ctx context.Context, g *Globals, getenv func(string) (string, bool)) (endpoint, token string, err error) {
	envEndpoint, _ := getenv("TICKRING_ENDPOINT")
	envToken, _ := getenv("TICKRING_TOKEN")
	switch {
	case g.Endpoint != "":
		return g.Endpoint, firstOf(g.Token, envToken, tokenOf(g, g.Endpoint, getenv)), nil
	case g.Data != "":
		endpoint := readLine(filepath.Join(g.Data, endpointFile))
		if endpoint == "" {
			return "", "", fmt.Errorf("no server has run on the data folder %s: start one with: tickring serve --data %s", g.Data, g.Data)
		}
		return endpoint, firstOf(g.Token, readLine(filepath.Join(g.Data, tokenFile)), envToken, adminToken(getenv)), nil
	case envEndpoint != "":
		return envEndpoint, firstOf(g.Token, envToken, tokenOf(g, envEndpoint, getenv)), nil
	}
	dir, err := dataDir("", getenv)
	if err != nil {
		return "", "", err
	}
	for _, dir := range []string{dir, filepath.Join(dir, demoFolder)} {
		endpoint := readLine(filepath.Join(dir, endpointFile))
		if endpoint != "" && answers(ctx, endpoint) {
			return endpoint, firstOf(g.Token, envToken, readLine(filepath.Join(dir, tokenFile)), adminToken(getenv)), nil
		}
	}
	return "", "", fmt.Errorf("no server runs on this machine (data folder %s): start one with: tickring serve\nor set TICKRING_ENDPOINT and TICKRING_TOKEN for one elsewhere", dir)
}

// tokenOf is the token in the data folder, if that is the folder of endpoint: a
// token is not sent to anybody else.
func tokenOf(g *Globals, endpoint string, getenv func(string) (string, bool)) string {
	dir, err := dataDir(g.Data, getenv)
	if err != nil {
		return ""
	}
	for _, dir := range []string{dir, filepath.Join(dir, demoFolder)} {
		if readLine(filepath.Join(dir, endpointFile)) == strings.TrimSuffix(endpoint, "/") {
			return readLine(filepath.Join(dir, tokenFile))
		}
	}
	return ""
}

func adminToken(getenv func(string) (string, bool)) string {
	token, _ := getenv("TICKRING_ADMIN_TOKEN")
	return token
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// readLine is the text of a small file; empty if it cannot be read.
func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// answers reports whether anything speaks HTTP at endpoint.
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
	return true
}

// api is the client of the server that the flags and the environment mean.
func (e *Env) api() (*client.Client, error) {
	if e.found != nil {
		return e.found, nil
	}
	endpoint, token, err := findServer(e.Ctx, e.Globals, e.Getenv)
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, &exitError{exitRefused, fmt.Errorf("there is no token for %s: set TICKRING_TOKEN", endpoint)}
	}
	e.found, err = client.New(endpoint, token, client.Config{Actor: e.actor()})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return e.found, nil
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
	return firstOf(name[:min(len(name), 64)], "cli")
}
