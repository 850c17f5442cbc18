package arch_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	pageLink  = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchorTag = regexp.MustCompile(`<a id="([^"]+)">`)
)

// pages returns the Markdown files of the repository by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir("../..", func(p string, d fs.DirEntry, err error) error {
		switch name, _ := filepath.Rel("../..", p); {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".md"):
			b, err := os.ReadFile(p)
			all[filepath.ToSlash(name)] = codeBlock.ReplaceAllString(string(b), "")
			return err
		}
		return nil
	})
	check.OK(t, err)
	return all
}

// anchors returns the anchors of a page as GitHub creates them.
func anchors(text string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(slug, " ", "-"))
	}
	for _, m := range anchorTag.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// TestLinksBetweenPagesWork follows each relative link of each page to its file and its anchor.
func TestLinksBetweenPagesWork(t *testing.T) {
	all, links := pages(t), 0
	for name, text := range all {
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") || m[1] == "" {
				continue
			}
			to := path.Join(path.Dir(name), target)
			if target == "" {
				to = name
			}
			links++
			switch page, isPage := all[to]; {
			case !exists(to):
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			case anchor != "" && isPage && !slices.Contains(anchors(page), anchor):
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found", links)
	}
}

// TestMapListsEveryPage compares docs/README.md with the pages in docs; decisions have an index of their own.
func TestMapListsEveryPage(t *testing.T) {
	all := pages(t)
	for name := range all {
		rel, inDocs := strings.CutPrefix(name, "docs/")
		if inDocs && rel != "README.md" && (!strings.HasPrefix(rel, "decisions/") || rel == "decisions/README.md") &&
			!strings.Contains(all["docs/README.md"], "]("+rel+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}
