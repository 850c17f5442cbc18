package sqlite

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestMigrateAddsStepsOnceOrNotAtAll checks a later step on a file with data: it is applied once, and nothing is applied if a step
// fails.
func TestMigrateAddsStepsOnceOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, Options{})
	check.OK(t, s.CreateRuns(t.Context(), []core.Run{claim(1)})[0])
	s.Close()
	c, err := openFile(filepath.Join(dir, "tickring.db"), "OFF")
	check.OK(t, err)
	defer c.Close()
	file := &conn{Conn: c}
	second := append(slices.Clone(migrations), "ALTER TABLE runs ADD COLUMN color TEXT DEFAULT 'red'; CREATE TABLE colors (name TEXT)")
	third := append(slices.Clone(second), "CREATE TABLE shapes (name TEXT); CREATE TABLE colors (name TEXT)") // the second statement fails
	newest := int64(len(migrations))
	for _, step := range []struct {
		name                    string
		list                    []string
		fails                   bool
		version, colors, shapes int64
	}{
		{"the product's list", migrations, false, newest, 0, 0},
		{"a good step and a failing one", third, true, newest, 0, 0},
		{"a good step", second, false, newest + 1, 1, 0},
		{"nothing to do", second, false, newest + 1, 1, 0},
		{"a failing step", third, true, newest + 1, 1, 0},
	} {
		if err := migrate(c, step.list); (err != nil) != step.fails {
			t.Errorf("%s: %v", step.name, err)
		}
		for q, want := range map[string]int64{
			"PRAGMA user_version":   step.version,
			"PRAGMA application_id": applicationID,
			"SELECT count(*) FROM pragma_table_info('runs') WHERE name = 'color'": step.colors,
			"SELECT count(*) FROM sqlite_schema WHERE name = 'colors'":            step.colors,
			"SELECT count(*) FROM sqlite_schema WHERE name = 'shapes'":            step.shapes,
			"SELECT count(*) FROM runs WHERE owner = 'o'":                         1,
		} {
			if got := file.integer(q); file.err != nil || got != want {
				t.Errorf("%s: %s is %d, want %d: %v", step.name, q, got, want, file.err)
			}
		}
	}
	if n := file.integer("SELECT count(*) FROM runs WHERE color = 'red'"); n != 1 {
		t.Errorf("%d runs have the new column: %v", n, file.err)
	}
}

// TestOpenRejectsForeignFiles checks that a file of another layout is rejected, stays as it is, and leaves the caller the lock.
func TestOpenRejectsForeignFiles(t *testing.T) {
	texts := golden.New(t)
	for _, x := range []struct {
		name    string
		changes []string
	}{
		{"newer version", []string{"PRAGMA user_version = 99"}},
		{"development version", []string{"PRAGMA application_id = 0", "PRAGMA user_version = 22"}},
		{"first development version", []string{"PRAGMA application_id = 0"}},
		{"tables of another program", []string{"PRAGMA application_id = 0", "PRAGMA user_version = 0"}},
		{"another program", []string{"PRAGMA application_id = 7"}},
		{"trigger", []string{"CREATE TRIGGER planted AFTER INSERT ON records BEGIN DELETE FROM records; END"}},
		{"view", []string{"CREATE VIEW planted AS SELECT name FROM records"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			s := testStore(t, dir, Options{})
			for _, q := range x.changes {
				raw(t, s, q)
			}
			s.Close()
			c, err := connect(filepath.Join(dir, "tickring.db"))
			check.OK(t, err)
			defer c.Close()
			state := func() [3]int64 {
				file := conn{Conn: c}
				list := [...]int64{file.integer("PRAGMA application_id"), file.integer("PRAGMA user_version"), file.integer("PRAGMA schema_version")}
				check.OK(t, file.err)
				return list
			}
			before := state()
			lock, err := TryLock(dir)
			check.OK(t, err)
			defer lock.Release()
			_, err = Open(t.Context(), Options{Lock: lock})
			if core.CodeOf(err) != core.CodeRefused {
				t.Fatalf("got %v", err)
			}
			texts.Equal(t, x.name, err.Error(), dir, "DIR")
			if after := state(); after != before || lock.file == nil {
				t.Errorf("application_id, user_version and schema_version were %d and are %d; lock held: %t", before, after, lock.file != nil)
			}
		})
	}
}
