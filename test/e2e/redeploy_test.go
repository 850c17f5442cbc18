package e2e_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/test/harness"
)

// around is how long the job fires before, between and after two deployments.
const around = 10 * time.Second

// code returns the directory in functions/ of each function of the stack.
func (s *stack) code() map[string]string {
	all := map[string]string{
		s.TickFunction: "tick", s.DispatchFunction: "dispatch", s.SlowFunction: "dispatch",
		s.ApiFunction: "api", s.CallbackFunction: "callback", s.RegistryFunction: "registry",
	}
	delete(all, "") // with one function URL there is no registry
	return all
}

// buildOlder builds the functions as they were before the last commit that
// changed them. A tree without that history has them built otherwise.
func (s *stack) buildOlder(t *testing.T) {
	dir := filepath.Join(s.Dir, "older") // it outlives this case
	check.OK(t, os.Mkdir(dir, 0o700))
	source, flags := older(t, filepath.Join(dir, "source")), []string{"-ldflags", "-s -w"}
	if source == "" {
		t.Log("there is no older commit here: another build of the same source takes its place")
		source, flags = harness.Root, nil
	}
	built := map[string]bool{}
	for _, name := range s.code() {
		if built[name] {
			continue
		}
		built[name] = true
		check.OK(t, harness.Function(source, "./functions/"+name, filepath.Join(dir, name, "bootstrap"), flags...))
	}
	s.older = dir
}

// older checks out the source before the last change to the functions' code; it returns "" if that is unknown.
func older(t *testing.T, dir string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", harness.Root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	last, err := git("rev-list", "-1", "HEAD", "--", "core", "functions", "internal", "send", "store", "wire", "wirehttp",
		":(exclude)*_test.go", ":(exclude)*/testdata/*", ":(exclude)*.md")
	if err != nil || last == "" {
		return ""
	}
	commit, err := git("rev-parse", "--verify", "--quiet", last+"^")
	if err != nil {
		return ""
	}
	check.OK(t, os.Mkdir(dir, 0o700))
	file := dir + ".tar"
	if _, err := git("archive", "-o", file, commit); err != nil {
		t.Fatalf("the source of %s: %v", commit, err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpack the source of %s: %v\n%s", commit, err, out)
	}
	subject, _ := git("log", "-1", "--format=%h %s", commit)
	t.Logf("the older functions belong to %s", subject)
	return dir
}

// zipped returns a function as a zip file for Lambda.
func zipped(t *testing.T, dir string) []byte {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(dir, "bootstrap"))
	check.OK(t, err)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	h.SetMode(0o755)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = w.Write(program)
	}
	if err == nil {
		err = z.Close()
	}
	check.OK(t, err)
	return b.Bytes()
}

// redeployed: while a job fires each second, the functions are replaced by other builds and then restored. No run is lost, and none
// is sent twice.
func (s *stack) redeployed(t *testing.T) {
	if s.older == "" {
		s.buildOlder(t)
	}
	now, before := map[string][]byte{}, map[string][]byte{}
	for fn, name := range s.code() {
		now[fn], before[fn] = s.deployedCode(t, fn), zipped(t, filepath.Join(s.older, name))
	}
	app := s.app(t, "redeployed", "")
	c, from := s.fires(t, app, "--misfire", "all") // runs late by more than a minute are wanted, too
	store.Sleep(t.Context(), around)
	older := s.deploy(t, before)
	store.Sleep(t.Context(), around)
	newer := s.deploy(t, now)
	for fn, hash := range older {
		if newer[fn] == hash {
			t.Errorf("%s is the same code in both deployments", s.code()[fn])
		}
	}
	store.Sleep(t.Context(), around)
	c.hold(t, s, app, from, time.Now().Truncate(time.Second))
}

// deployedCode returns the code of a function.
func (s *stack) deployedCode(t *testing.T, fn string) []byte {
	t.Helper()
	out, err := lambda.NewFromConfig(s.sdk).GetFunction(t.Context(), &lambda.GetFunctionInput{FunctionName: &fn})
	check.OK(t, err)
	resp, err := http.Get(*out.Code.Location)
	check.OK(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the code of %s: %s, %v", fn, resp.Status, err)
	}
	return b
}

// deploy updates the code of running functions, and returns its hashes once it is active.
func (s *stack) deploy(t *testing.T, code map[string][]byte) (hashes map[string]string) {
	t.Helper()
	cl := lambda.NewFromConfig(s.sdk)
	hashes = map[string]string{}
	for fn, z := range code {
		out, err := cl.UpdateFunctionCode(t.Context(), &lambda.UpdateFunctionCodeInput{FunctionName: &fn, ZipFile: z})
		if err != nil {
			t.Fatalf("put code into %s: %v", fn, err)
		}
		hashes[fn] = *out.CodeSha256
	}
	for fn := range code {
		s.active(t, fn)
	}
	return hashes
}

// active waits until a function may be invoked.
func (s *stack) active(t *testing.T, fn string) {
	t.Helper()
	cl := lambda.NewFromConfig(s.sdk)
	check.OK(t, waiting.For(patience, func() error {
		out, err := cl.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
		if err != nil {
			return err
		}
		if out.State != "Active" || out.LastUpdateStatus == "InProgress" {
			return fmt.Errorf("%s is %s, its update %s", fn, out.State, out.LastUpdateStatus)
		}
		return nil
	}))
}
