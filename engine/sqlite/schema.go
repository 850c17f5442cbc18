package sqlite

import (
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tickring/tickring/core"
)

// migrations bring a file from version i to i+1. New ones are only appended.
//
// Runs have a row number as well as an ID. So rows lie in the order in which they were made: claims and ends touch few
// pages, sweeps remove rows at the front, and "recent" needs no index. Their times grow with them, except at the rows in
// steps. For the order of IDs see recent.go.
var migrations = []string{
	// 1
	`
CREATE TABLE sched (
	id INTEGER PRIMARY KEY, app TEXT NOT NULL, name TEXT NOT NULL, state INTEGER NOT NULL,
	rev INTEGER NOT NULL, rev_at INTEGER NOT NULL, next INTEGER NOT NULL, plan_at INTEGER NOT NULL,
	partition INTEGER NOT NULL, seq INTEGER NOT NULL, tail INTEGER NOT NULL,
	keep INTEGER NOT NULL, spec BLOB NOT NULL,
	pause_until INTEGER NOT NULL, pause_by TEXT, pause_why TEXT, plan_error TEXT
);
CREATE UNIQUE INDEX sched_name ON sched (app, name);
CREATE INDEX sched_app ON sched (app);
CREATE INDEX sched_due ON sched (partition, plan_at, id) WHERE plan_at > 0;
CREATE TABLE def (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE entries (partition INTEGER NOT NULL, plan_at INTEGER NOT NULL, job INTEGER NOT NULL, run INTEGER NOT NULL);
CREATE UNIQUE INDEX entries_due ON entries (partition, plan_at, job, run);
CREATE INDEX entries_run ON entries (run);
CREATE TABLE tombs (job INTEGER PRIMARY KEY, app TEXT NOT NULL, name TEXT NOT NULL, rev INTEGER NOT NULL, rev_at INTEGER NOT NULL);

CREATE TABLE appnames (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE runs (
	n INTEGER PRIMARY KEY, key INTEGER NOT NULL, state INTEGER NOT NULL, made INTEGER NOT NULL,
	app INTEGER NOT NULL, cause INTEGER NOT NULL, rev INTEGER NOT NULL, at INTEGER NOT NULL, slot INTEGER NOT NULL,
	seq INTEGER NOT NULL, owner TEXT, until INTEGER NOT NULL, address TEXT, maybe INTEGER NOT NULL,
	jkey INTEGER, jnonce TEXT, sent INTEGER NOT NULL, attempt INTEGER NOT NULL, first INTEGER, retries INTEGER NOT NULL,
	fixed INTEGER NOT NULL,
	ended INTEGER, reason INTEGER, code INTEGER, message TEXT, owes TEXT, followed INTEGER,
	late TEXT, tries TEXT, kill_by TEXT, kill_at INTEGER, given TEXT
);
CREATE UNIQUE INDEX runs_key ON runs (key);
CREATE TABLE history (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE lingering (id INTEGER PRIMARY KEY);
CREATE TABLE journals (minute INTEGER NOT NULL, suffix INTEGER NOT NULL, nonce TEXT NOT NULL, v INTEGER NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX journals_key ON journals (minute, suffix, nonce);
CREATE TABLE revisits (minute INTEGER NOT NULL, claimed INTEGER NOT NULL, suffix INTEGER NOT NULL, nonce TEXT NOT NULL);
CREATE UNIQUE INDEX revisits_key ON revisits (minute, claimed, suffix, nonce);

CREATE TABLE ring (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, not_before INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX ring_time ON ring (kind, not_before);
CREATE TABLE dead (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL);

CREATE TABLE skips (
	job INTEGER NOT NULL, first INTEGER NOT NULL, reason TEXT NOT NULL, last INTEGER NOT NULL,
	count INTEGER NOT NULL, rev INTEGER NOT NULL, made INTEGER NOT NULL
);
CREATE UNIQUE INDEX skips_key ON skips (job, first, reason);
CREATE INDEX skips_made ON skips (made);
CREATE TABLE changes (
	n INTEGER PRIMARY KEY, id INTEGER NOT NULL, at INTEGER NOT NULL, by TEXT NOT NULL, verb TEXT NOT NULL, app TEXT NOT NULL,
	job INTEGER NOT NULL, name TEXT NOT NULL, why TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL
);
CREATE UNIQUE INDEX changes_job ON changes (job, id, app);
CREATE INDEX changes_app ON changes (app, id);
CREATE INDEX changes_id ON changes (id);
CREATE INDEX changes_at ON changes (at);

CREATE TABLE apps (name TEXT NOT NULL UNIQUE, rev INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE executors (
	app TEXT NOT NULL, address TEXT NOT NULL, beat INTEGER NOT NULL, since INTEGER NOT NULL, fixed INTEGER NOT NULL, dialect TEXT NOT NULL
);
CREATE UNIQUE INDEX executors_key ON executors (app, address);
CREATE TABLE leases (name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, epoch INTEGER NOT NULL, until INTEGER NOT NULL);
CREATE TABLE counters (job INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE keys (job INTEGER NOT NULL, key TEXT NOT NULL, run INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE UNIQUE INDEX keys_key ON keys (job, key);
CREATE INDEX keys_at ON keys (at);
CREATE TABLE state (name TEXT NOT NULL UNIQUE, value NOT NULL);
`,
	// 2
	`ALTER TABLE runs ADD COLUMN data TEXT;`,
	// 3: only few runs have pending follow-ups, and they are read all together
	`CREATE INDEX runs_owes ON runs (key) WHERE owes IS NOT NULL;`,
	// 4: queues that executors pull from
	`
CREATE TABLE pulled (
	id INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT NOT NULL, queue TEXT NOT NULL, run INTEGER NOT NULL,
	visible INTEGER NOT NULL, receives INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE UNIQUE INDEX pulled_run ON pulled (app, queue, run);
CREATE INDEX pulled_visible ON pulled (app, queue, visible, id);
`,
	// 5: no dead-letter message gets the number of a removed one
	`
ALTER TABLE dead RENAME TO old_dead;
CREATE TABLE dead (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL);
INSERT INTO dead SELECT id, at, reason, body FROM old_dead ORDER BY id;
DROP TABLE old_dead;
`,
	// 6: several changes may have the same subject and ID, with different content
	`
DROP INDEX changes_job;
CREATE INDEX changes_job ON changes (job, id, app);
`,
	// 7
	`ALTER TABLE sched ADD COLUMN compared INTEGER NOT NULL DEFAULT 0;`,
	// 8: for a run with children, which are created after its end
	`
ALTER TABLE runs ADD COLUMN place INTEGER;
CREATE INDEX runs_place ON runs (key) WHERE place IS NOT NULL AND state > 3 AND followed IS NULL AND (state <> 9 OR attempt > 1);
`,
	// 9: broadcasts, whose shards stay until they are closed
	`
CREATE INDEX runs_broadcast ON runs (key) WHERE given IS NOT NULL AND instr(given, '"first":') > 0
  AND (state <= 3 OR owes IS NOT NULL OR place IS NOT NULL);
`,
	// 10: reports; and indexes of the runs that were claimed, or ended without a claim, in a later minute than they were made,
	// by which reports find them. A run that starts when due is in neither.
	`
CREATE TABLE reports (list TEXT NOT NULL, at INTEGER NOT NULL, first INTEGER NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX reports_key ON reports (list, at, first);
CREATE INDEX runs_claimed_later ON runs (jkey) WHERE jkey >= (made / 60000 + 1) * 16;
CREATE INDEX runs_ended_later ON runs (ended) WHERE jkey IS NULL AND state > 3 AND ended >= (made / 60000 + 1) * 60000;
`,
	// 11: pending work of the post-run queue, and the kept logs
	`
ALTER TABLE runs ADD COLUMN postrun TEXT;
ALTER TABLE runs ADD COLUMN keep_log TEXT;
CREATE INDEX runs_postrun ON runs (key) WHERE postrun IS NOT NULL OR keep_log = 'always' AND state = 4 AND sent > 0 AND address IS NOT NULL
  AND substr(address, 1, 5) <> 'call:' AND substr(address, 1, 6) <> 'queue:';
CREATE TABLE logs (run INTEGER PRIMARY KEY, body BLOB NOT NULL);
`,
	// 12: scripts of jobs, each source once
	`
CREATE TABLE scripts (job INTEGER PRIMARY KEY, v INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE sources (job INTEGER NOT NULL, hash TEXT NOT NULL, at INTEGER NOT NULL, source TEXT NOT NULL);
CREATE UNIQUE INDEX sources_key ON sources (job, hash);
`,
	// 13: notification channels
	`CREATE TABLE channels (name TEXT NOT NULL UNIQUE, rev INTEGER NOT NULL, body BLOB NOT NULL);`,
	// 14: the scheduled time up to which runs of a job were cleaned up
	`CREATE TABLE cleaned (job INTEGER PRIMARY KEY, at INTEGER NOT NULL);`,
	// 15: states of notifications, and when each must be checked
	`
CREATE TABLE notices (name TEXT NOT NULL UNIQUE, v INTEGER NOT NULL, until INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX notices_until ON notices (until) WHERE until > 0;
CREATE TABLE looks (at INTEGER NOT NULL, job INTEGER NOT NULL);
CREATE UNIQUE INDEX looks_key ON looks (at, job);
`,
	// 16: lists of runs in the order in which they were made: runs of an app, and runs that did not succeed
	`
CREATE INDEX runs_app ON runs (app);
CREATE INDEX runs_ended_so ON runs (state) WHERE state > 4;
`,
	// 17: users
	`CREATE TABLE people (name TEXT NOT NULL UNIQUE, rev INTEGER NOT NULL, body BLOB NOT NULL);`,
	// 18: the bulk operation that a change was part of
	`ALTER TABLE changes ADD COLUMN act TEXT;`,
	// 19: the source of a change, and the client
	`
ALTER TABLE changes ADD COLUMN source TEXT;
ALTER TABLE changes ADD COLUMN via TEXT;
`,
	// 20: how far the clock of an executor is ahead, in seconds
	`ALTER TABLE executors ADD COLUMN ahead INTEGER;`,
	// 21: the few runs that were made long before or after their due time; the other runs of a due time are close together
	`CREATE INDEX runs_apart ON runs (slot) WHERE ` + madeApart + `;`,
	// 22: the last row before each time the clock was set back: between those rows, made grows
	`CREATE TABLE steps (n INTEGER PRIMARY KEY);`,
	// 23: small records of all kinds
	`
DROP TABLE channels;
DROP TABLE people;
DROP TABLE notices;
DROP TABLE looks;
DROP TABLE cleaned;
DROP TABLE scripts;
DROP TABLE sources;
DROP TABLE reports;
CREATE TABLE records (kind TEXT NOT NULL, name TEXT NOT NULL, v INTEGER NOT NULL, expires INTEGER, body BLOB NOT NULL);
CREATE UNIQUE INDEX records_key ON records (kind, name);
CREATE INDEX records_expires ON records (expires) WHERE expires IS NOT NULL;
`,
}

// migrate brings the file to the newest version, in one transaction.
func migrate(c *sqlite.Conn) (err error) {
	version, err := pragma(c, "user_version")
	if err != nil {
		return err
	}
	// A restored file may come from anyone: triggers and views in it would run foreign code.
	foreign, err := number(c, "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')")
	switch {
	case err != nil:
		return err
	case foreign > 0:
		return &core.Error{Code: core.CodeRefused, Field: "data", Value: "tickring.db",
			Reason: core.Say("the file has triggers or views, which tickring never creates: the file was modified, so restore another copy")}
	}
	newest := len(migrations)
	if version > int64(newest) {
		return &core.Error{Code: core.CodeRefused, Field: "data", Value: "tickring.db, version " + strconv.FormatInt(version, 10),
			Reason: core.Say("the file was written by a newer tickring; this one reads versions up to %d: run the newer one, or restore a copy "+
				"from before the update", newest)}
	}
	if version == int64(newest) {
		return nil
	}
	defer sqlitex.Save(c)(&err)
	for i := version; i < int64(newest); i++ {
		if err := sqlitex.ExecuteScript(c, migrations[i], nil); err != nil {
			return fmt.Errorf("migrate to version %d: %w", i+1, err)
		}
	}
	return exec(c, fmt.Sprintf("PRAGMA user_version = %d", newest))
}

// pragma returns the number that a pragma has.
func pragma(c *sqlite.Conn, name string) (value int64, err error) {
	return number(c, "PRAGMA "+name)
}

// number returns the single number that a query returns.
func number(c *sqlite.Conn, sql string) (value int64, err error) {
	err = sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
		value = st.ColumnInt64(0)
		return nil
	}})
	return value, err
}

// exec runs a statement that is not cached.
func exec(c *sqlite.Conn, query string) error { return sqlitex.ExecuteTransient(c, query, nil) }
