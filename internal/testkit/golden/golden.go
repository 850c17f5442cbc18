// Package golden compares the output of tests with expected texts in testdata. The flag -update writes the actual
// texts to the files.
//
// A test checks facts that users rely on, such as states, exit codes and data attributes, in its code. The golden file
// has the wording of messages. A changed text is therefore a diff in one file.
package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files of the tests that run")

// Texts has the expected texts of one test function, each with a key. The file testdata/<name of the test>.txt is a
// txtar archive with one section for each key.
type Texts struct {
	mu   sync.Mutex
	file string
	want map[string]string
	got  map[string]string
}

// New returns the expected texts of the test t, which must not be a subtest. After t and its subtests end, t fails if
// a section of the file was not compared.
func New(t testing.TB) *Texts {
	t.Helper()
	g := &Texts{file: filepath.Join("testdata", t.Name()+".txt"), want: map[string]string{}, got: map[string]string{}}
	if page, err := os.ReadFile(g.file); err == nil {
		for _, f := range txtar.Parse(page).Files {
			g.want[f.Name] = string(f.Data)
		}
	} else if !*update {
		t.Fatalf("%v; write the file with: go test -run '^%s$' -update", err, t.Name())
	}
	t.Cleanup(func() { g.end(t) })
	return g
}

// Equal fails t if the file has a different text for this key. The last arguments are pairs of a text and its
// placeholder. Use a pair for each text that varies between test runs, such as a port.
func (g *Texts) Equal(t testing.TB, key, got string, replace ...string) {
	t.Helper()
	got = strings.TrimRight(strings.NewReplacer(replace...).Replace(got), "\n") + "\n"
	g.mu.Lock()
	defer g.mu.Unlock()
	if strings.Contains(got, "<nil>") {
		t.Errorf("%q has no text: %s", key, got)
	}
	if before, is := g.got[key]; is && before != got {
		t.Errorf("two texts have the key %q", key)
	}
	g.got[key] = got
	if want, is := g.want[key]; *update {
		return
	} else if !is {
		t.Errorf("%s has no section %q; the text is:\n%s", g.file, key, got)
	} else if want != got {
		t.Errorf("%q is\n%s\n%s has\n%s", key, got, g.file, want)
	}
}

func (g *Texts) end(t testing.TB) {
	if !*update {
		part := strings.Contains(flag.Lookup("test.run").Value.String(), "/") || t.Failed() || t.Skipped()
		for key := range g.want {
			if _, is := g.got[key]; !is && !part {
				t.Errorf("%s has a section %q that the test does not compare", g.file, key)
			}
		}
		return
	}
	page := &txtar.Archive{}
	for key, text := range g.got {
		page.Files = append(page.Files, txtar.File{Name: key, Data: []byte(text)})
	}
	slices.SortFunc(page.Files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	File(t, g.file, txtar.Format(page))
}

// Replay is for a file whose sections have inputs and their results. It plays each section in a subtest. The subtest fails if the
// played text differs from the section.
func Replay(t *testing.T, play func(t *testing.T, text string) (played string)) {
	t.Helper()
	file := filepath.Join("testdata", t.Name()+".txt")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(page)
	for i := range archive.Files {
		section := &archive.Files[i]
		t.Run(section.Name, func(t *testing.T) {
			played := play(t, string(section.Data))
			if !*update {
				differs(t, file, strings.Split(string(section.Data), "\n"), strings.Split(played, "\n"))
			}
			section.Data = []byte(played)
		})
	}
	if *update {
		File(t, file, txtar.Format(archive))
	}
}

// differs fails t at the first line in which the played lines differ from the lines of the file.
func differs(t testing.TB, file string, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		w, g := "no line", "no line"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Errorf("after %q is\n%s\n%s has\n%s", want[max(0, min(i, len(want))-1)], g, file, w)
			return
		}
	}
}

// File fails t if the text `got` differs from the content of a file. The path of the file is relative to the directory
// of the test. With -update, File writes the text to the file.
func File(t testing.TB, file string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err == nil && bytes.Equal(want, got) {
		return
	}
	if *update {
		err = os.WriteFile(file, got, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !*update {
		t.Errorf("%s is stale; write it with: go test -run '^%s$' -update", file, t.Name())
	}
}
