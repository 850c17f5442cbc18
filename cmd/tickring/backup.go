package main

import (
	"os"
	"path/filepath"

	"github.com/tickring/tickring/store/sqlite"
)

type backupCmd struct {
	File string `arg:"" type:"path" help:"Path of the copy; the file must not exist."`
}

func (c *backupCmd) Help() string {
	return `Copies a consistent snapshot of tickring.db from the data directory (--data), even while a server uses the directory.
To restore the copy, see docs/how-to/back-up-and-restore.md.`
}

func (c *backupCmd) Run(e *Env) error {
	if e.Endpoint != "" || e.Stack != "" || e.Context != "" {
		return usagef("backup copies a data directory on this machine: use --data, not --endpoint, --stack or --context")
	}
	dir, err := e.dataDir()
	if err != nil {
		return usagef("%w", err)
	}
	// Like all commands, it uses the demo's data if there is no other.
	if demo := filepath.Join(dir, demoFolder); e.Data == "" && !hasData(dir) && hasData(demo) {
		dir = demo
	}
	size, err := sqlite.Backup(e.Ctx, dir, c.File)
	return e.show(struct {
		Data string `json:"data"`
		File string `json:"file"`
		Size int64  `json:"bytes"`
	}{dir, c.File, size}, err, func() { e.printf("copied %s to %s   %d bytes\n", dir, c.File, size) })
}

func hasData(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "tickring.db"))
	return err == nil
}
