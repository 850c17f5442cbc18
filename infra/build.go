package infra

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

const module = "github.com/tickring/tickring"

// build compiles the functions of a Scheduler, for its processor, to <directory>/<name>/bootstrap, and returns the directory. Go
// keeps files that would not change. The same source gives the same bytes, so that a deployment updates only the functions that
// changed.
func build(p *Props, names []string) (string, error) {
	if p.Functions != "" {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(p.Functions, name, "bootstrap")); err != nil {
				return "", fmt.Errorf("setting Functions is %q, but %s/bootstrap is missing", p.Functions, name)
			}
		}
		return p.Functions, nil
	}
	source, err := findSource(p.Source)
	if err != nil {
		return "", err
	}
	arch := "arm64"
	if p.Architecture != nil && *p.Architecture.Name() == *awslambda.Architecture_X86_64().Name() {
		arch = "amd64"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "tickring", "functions-"+arch)
	for i, name := range names {
		fmt.Fprintf(os.Stderr, "compiling function %d of %d: %s\n", i+1, len(names), name)
		// The tags omit code that calls methods by name (an RPC server, a page of gRPC, mail templates). With it, the linker would
		// keep all of the AWS SDK: the functions would be twice as large.
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc,grpcnotrace,gomailnotpl", "-ldflags", "-s -w",
			"-o", filepath.Join(dir, name, "bootstrap"), "./functions/"+name)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the function %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
}

// findSource returns the directory of the module: as given, or the one that Go resolves for the running CDK app.
func findSource(given string) (string, error) {
	if given != "" {
		if _, err := os.Stat(filepath.Join(given, "functions", "tick", "main.go")); err != nil {
			return "", fmt.Errorf("setting Source is %q, but the module %s is missing", given, module)
		}
		return filepath.Abs(given)
	}
	out, err := exec.Command("go", "list", "-m", "-json", module).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("find the module %s (Source may name its folder): %w", module, err)
	}
	var m struct {
		Dir     string
		Version string
	}
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("find the module %s: %w", module, err)
	}
	if m.Dir == "" {
		return "", fmt.Errorf("the module %s %s is not downloaded: go mod download %s", module, m.Version, module)
	}
	return m.Dir, nil
}
