package sqlite

import (
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tickring/tickring/core"
)

// applicationID marks a file as written by tickring: "tick" in SQLite's pragma application_id. Files of development versions,
// before the first schema of migrations, have none.
const applicationID = 0x7469636b

// migrations bring a file from version i to i+1. After a release, entries are only appended. The first one is the whole schema.
// Scheduled and due times are seconds since 1970, other times are milliseconds.
var migrations = []string{
	`
-- The part of each job that planning reads.
CREATE TABLE sched (
	id INTEGER PRIMARY KEY, app TEXT NOT NULL, name TEXT NOT NULL, keep INTEGER NOT NULL, state TEXT NOT NULL,
	rev INTEGER NOT NULL, rev_at INTEGER NOT NULL, next INTEGER NOT NULL, plan_at INTEGER NOT NULL,
	partition INTEGER NOT NULL, seq INTEGER NOT NULL, tail INTEGER NOT NULL,
	pause_until INTEGER NOT NULL, pause_by TEXT NOT NULL, pause_why TEXT NOT NULL, plan_error TEXT NOT NULL, compared INTEGER NOT NULL,
	spec BLOB NOT NULL
);
-- One job for each name in an app.
CREATE UNIQUE INDEX sched_name ON sched (app, name);
-- Lists of the jobs of an app, by ID.
CREATE INDEX sched_app ON sched (app);
-- The due index of jobs.
CREATE INDEX sched_due ON sched (partition, plan_at, id) WHERE plan_at > 0;
-- The rest of each job, its definition, as JSON.
CREATE TABLE def (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
-- The due index of runs that wait for their time, such as retries.
CREATE TABLE entries (partition INTEGER NOT NULL, plan_at INTEGER NOT NULL, job INTEGER NOT NULL, run INTEGER NOT NULL);
CREATE UNIQUE INDEX entries_due ON entries (partition, plan_at, job, run);
-- The entries of the runs of a job.
CREATE INDEX entries_run ON entries (run);
-- The last run number of each job, and the last job ID as the number of job 0.
CREATE TABLE counters (job INTEGER PRIMARY KEY, last INTEGER NOT NULL);

-- Runs. The row number n is the time at which the row was made, in milliseconds since 2000 times 64, plus a count. So rows lie in
-- the order in which they were made: claims and ends touch few pages, sweeps remove rows at the front, and lists of recent runs need
-- no index. For the key, and for lists in the order of IDs, see lists.go.
CREATE TABLE runs (
	n INTEGER PRIMARY KEY, key INTEGER NOT NULL, state INTEGER NOT NULL,
	app TEXT, cause INTEGER NOT NULL, rev INTEGER NOT NULL, at INTEGER NOT NULL, slot INTEGER NOT NULL,
	seq INTEGER NOT NULL, owner TEXT, until INTEGER NOT NULL, address TEXT, maybe INTEGER NOT NULL,
	jminute INTEGER NOT NULL, jsuffix INTEGER NOT NULL, jnonce TEXT, sent INTEGER NOT NULL, attempt INTEGER NOT NULL, first INTEGER,
	retries INTEGER NOT NULL, fixed INTEGER NOT NULL,
	ended INTEGER, reason INTEGER, code INTEGER, message TEXT, owes TEXT, followed INTEGER NOT NULL DEFAULT 0,
	late TEXT, tries TEXT, kill_by TEXT, kill_at INTEGER NOT NULL DEFAULT 0, params TEXT, addresses TEXT,
	bound_to TEXT, given_by TEXT, rerun_of INTEGER NOT NULL DEFAULT 0, pauses INTEGER NOT NULL DEFAULT 0,
	parent INTEGER NOT NULL DEFAULT 0, shard TEXT, permit TEXT,
	sent_rev INTEGER NOT NULL DEFAULT 0, notice INTEGER NOT NULL DEFAULT 0, data TEXT, place INTEGER NOT NULL DEFAULT 0,
	postrun TEXT, keep_log TEXT
);
-- The run of an ID.
CREATE UNIQUE INDEX runs_key ON runs (key);
-- The few runs with pending follow-ups, for sweeps of journals. The filter is owesAny.
CREATE INDEX runs_owing ON runs (key) WHERE ` + owesAny + `;
-- The runs that were claimed, or ended without a claim, in a later minute than they were made, for reports. A run that starts when
-- due is in neither index. A minute has 3840000 row numbers.
CREATE INDEX runs_claimed_later ON runs (jminute) WHERE ` + claimedLater + `;
CREATE INDEX runs_ended_later ON runs (ended) WHERE ` + endedLater + `;
-- Lists of runs in the order in which they were made: runs of an app, and runs that did not succeed.
CREATE INDEX runs_app ON runs (app);
CREATE INDEX runs_ended_so ON runs (state) WHERE state > 4;
-- The few runs that were made long before or after their due time, for lists of a span of due times.
CREATE INDEX runs_apart ON runs (slot) WHERE ` + madeApart + `;
-- The runs up to the mark by ID, and the runs that were open when the mark moved. See lists.go.
CREATE TABLE history (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE lingering (id INTEGER PRIMARY KEY);

-- Messages of the delay queue, the slow queue and the post-run queue.
CREATE TABLE ring (
	id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, visible_at INTEGER NOT NULL, slot INTEGER NOT NULL, body BLOB NOT NULL
);
-- The next messages of a queue, and their due times.
CREATE INDEX ring_next ON ring (kind, visible_at, slot);
-- The few messages that are not visible at their due time, for sweeps of runs.
CREATE INDEX ring_moved ON ring (slot) WHERE ` + moved + `;
-- The queues that executors pull from. The number of a removed message is not used again.
CREATE TABLE pulled (
	id INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT NOT NULL, queue TEXT NOT NULL, run INTEGER NOT NULL,
	visible INTEGER NOT NULL, receives INTEGER NOT NULL, body BLOB NOT NULL
);
-- One message for each run in a queue.
CREATE UNIQUE INDEX pulled_run ON pulled (app, queue, run);
-- The next messages of a queue.
CREATE INDEX pulled_visible ON pulled (app, queue, visible, id);
-- How many runs each queue has: counting 10,000 takes 1 ms of the writer.
CREATE TABLE pulled_size (app TEXT NOT NULL, queue TEXT NOT NULL, runs INTEGER NOT NULL, PRIMARY KEY (app, queue)) WITHOUT ROWID;

-- Small records of all kinds: see store.Records. The second from which a sweep may remove a record is in expires.
CREATE TABLE records (kind TEXT NOT NULL, name TEXT NOT NULL, v INTEGER NOT NULL, expires INTEGER, body BLOB NOT NULL);
CREATE UNIQUE INDEX records_key ON records (kind, name);
CREATE INDEX records_expires ON records (expires) WHERE expires IS NOT NULL;
-- Numbers of the engine, such as the mark of the history.
CREATE TABLE state (name TEXT NOT NULL UNIQUE, value NOT NULL);
`,
}

// migrate applies the steps that the file lacks, in one transaction. After an error, the file is unchanged.
func migrate(db *sqlite.Conn, steps []string) (err error) {
	c := &conn{Conn: db}
	version, err := checkFile(c, len(steps))
	if err != nil || version == len(steps) {
		return err
	}
	defer sqlitex.Save(db)(&err)
	for i := version; i < len(steps); i++ {
		if err := sqlitex.ExecuteScript(db, steps[i], nil); err != nil {
			return fmt.Errorf("migrate to version %d: %w", i+1, err)
		}
	}
	c.exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	c.exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
	return c.err
}

// checkFile returns the version of the file, 0 for an empty file. It returns an error if this program must not use the file.
func checkFile(c *conn, newest int) (version int, err error) {
	id, v := c.integer("PRAGMA application_id"), c.integer("PRAGMA user_version")
	objects := c.integer("SELECT count(*) FROM sqlite_schema")
	foreign := c.integer("SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')")
	rejected := func(value string, reason core.Text) error {
		return &core.Error{Code: core.CodeRefused, Field: "data", Value: value, Reason: reason}
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case id == 0 && v > 0:
		return 0, rejected("tickring.db", core.Say("the file was written by a development version of tickring: "+
			"export the jobs with that version, and start with an empty directory"))
	case id != applicationID && (id != 0 || objects > 0):
		return 0, fmt.Errorf("application ID %d: %w", id, sqlite.ResultNotADB.ToError())
	case foreign > 0: // a restored file may come from anyone: triggers and views in it would run foreign code
		return 0, rejected("tickring.db", core.Say("the file has triggers or views, which tickring never creates: "+
			"the file was modified, so restore another copy"))
	case v > int64(newest):
		return 0, rejected(fmt.Sprint("tickring.db, version ", v), core.Say("the file was written by a newer tickring; "+
			"this one reads versions up to %d: run the newer one, or restore a copy from before the update", newest))
	}
	return int(v), nil
}
