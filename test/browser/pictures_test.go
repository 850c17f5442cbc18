package browser

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
	"github.com/tickring/tickring/test/mailbox"
)

var docsFlag = flag.String("docs", "", "directory for the pictures of the documentation; without it, TestDocPictures is skipped")

// maxPicture is the maximum size of a picture in the documentation, in bytes.
const maxPicture = 200_000

// TestDocPictures takes the pictures of the documentation from `serve --demo`, each in light and dark colors.
func TestDocPictures(t *testing.T) {
	if *docsFlag == "" {
		t.Skip("-docs is not set")
	}
	dir, err := filepath.Abs(*docsFlag)
	check.OK(t, err)
	inbox := (&mailbox.Server{}).Start(t, core.TLSNone, tls.Certificate{})
	s := harness.Start(t, binary, filepath.Join(t.TempDir(), "data"), "--demo")
	s.OK(t, fmt.Sprintf(`version: 1
set: demo
channels:
  - {name: oncall, email: &email {to: [ops@example.com], from: jobs@example.com, smtp: {host: 127.0.0.1, port: %d, tls: none}}}
  - {name: oncall-zh, language: zh, email: *email}
apps:
  - {name: warehouse, title: Stock and suppliers, notify: {to: [oncall, oncall-zh]}}
`, inbox.Port), "apply", "-f", "-")
	p := newPage(t, s.URL, manner{})
	p.open(linkOf(t, s))
	p.at("/console/")

	const limit = 5 * time.Minute // for 30 runs of a job that runs every 5 seconds
	var retried, backup string
	ready := func() error {
		if n := len(s.Runs(t, "warehouse/stock-sync", "--limit", "30")); n < 30 {
			return fmt.Errorf("%d runs of warehouse/stock-sync", n)
		}
		retried, backup = "", ""
		for _, r := range s.Runs(t, "warehouse/supplier-import", "--limit", "30") {
			if r.State == "succeeded" && r.Attempt == 2 {
				retried = r.ID
			}
		}
		for _, r := range s.Runs(t, "ops/backup", "--limit", "30") {
			if r.State == "succeeded" {
				backup = r.ID
			}
		}
		if retried == "" || backup == "" || len(s.Runs(t, "ops/backup-report")) == 0 || len(s.Runs(t, "web/clear-caches")) == 0 {
			return errors.New("the chain, the broadcast or the retry has not run")
		}
		return nil
	}
	check.OK(t, waiting.For(limit, ready))
	p.size(1280, 720)
	p.sees("Failing: 1") // the import, from second 46 of each minute
	p.shots(dir, "console-overview")
	for _, v := range []struct {
		name, path string
		width      int64
		m          manner
	}{
		{"console-jobs", "/console/jobs", 1440, manner{}},
		{"console-jobs-zh", "/console/jobs", 1440, manner{lang: "zh"}},
		{"console-run", "/console/runs/" + retried, 1280, manner{}},
		{"console-log", "/console/runs/" + backup + "/log", 1280, manner{}},
		{"console-upcoming", "/console/upcoming", 1280, manner{}},
		{"console-job-narrow", "/console/jobs/ops/backup", 390, manner{narrow: true}},
	} {
		p.manner(v.m)
		p.size(v.width, 720)
		p.open(v.path)
		p.at(v.path)
		if v.name == "console-log" {
			p.sees("backup complete")
		}
		p.shots(dir, v.name)
	}

	letters := arrived(t, inbox)
	mails := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, `<link rel=icon href="data:,">`+strings.Join(letters, "<br>"))
	}))
	defer mails.Close()
	m := newPage(t, mails.URL, manner{})
	m.size(720, 720)
	m.open("/")
	m.shot(filepath.Join(dir, "mail.png"))
}

// shots saves two pictures of the open page: NAME.png in light and NAME-dark.png in dark colors.
func (p *page) shots(dir, name string) {
	p.tb.Helper()
	for _, theme := range []string{"light", "dark"} {
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		p.shot(filepath.Join(dir, name+map[string]string{"dark": "-dark"}[theme]+".png"))
	}
}

// shot saves a picture of the upper 1200 pixels of the open page, and fails the test if the file is too large.
func (p *page) shot(path string) {
	p.tb.Helper()
	taken, err := p.captured(1200)
	check.OK(p.tb, err)
	full, err := png.Decode(bytes.NewReader(taken))
	check.OK(p.tb, err)
	var small bytes.Buffer
	check.OK(p.tb, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(full)))
	if small.Len() > maxPicture {
		p.tb.Errorf("%s: %d bytes; at most %d are allowed", path, small.Len(), maxPicture)
	}
	check.OK(p.tb, os.WriteFile(path, small.Bytes(), 0o644))
}

// paletted returns a picture with its 256 most frequent colors, which makes its file three times smaller.
func paletted(full image.Image) *image.Paletted {
	counts := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) })
	small := image.NewPaletted(full.Bounds(), colors[:min(len(colors), 256)])
	draw.Draw(small, small.Rect, full, image.Point{}, draw.Src)
	return small
}

// arrived waits for emails, and returns the HTML of the first email in English and the first one in Chinese.
func arrived(t *testing.T, inbox *mailbox.Server) (list []string) {
	t.Helper()
	check.OK(t, waiting.For(patience, func() error {
		list = nil
		for _, language := range []string{`lang="en"`, `lang="zh"`} {
			for _, l := range inbox.Letters() {
				if _, parts := l.Read(t); strings.Contains(parts["text/html; charset=UTF-8"], language) {
					list = append(list, parts["text/html; charset=UTF-8"])
					break
				}
			}
		}
		if len(list) < 2 {
			return fmt.Errorf("%d of 2 emails arrived", len(list))
		}
		return nil
	}))
	return list
}
