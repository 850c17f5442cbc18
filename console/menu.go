package console

import (
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

// pages registers all pages and forms, and fills the menu.
func (c *Console) pages() {
	c.page("GET /console/{$}", "overview", (*ask).overview)
	c.page("GET /console/jobs", "jobs", (*ask).jobs)
	c.form("POST /console/jobs/bulk", access.Operate, (*ask).bulk)
	c.form("POST /console/views", access.Enter, (*ask).viewsDo)
	c.page("GET /console/executors", "executors", (*ask).executors)
	c.form("POST /console/executors", access.Edit, onPage("executors", (*ask).executors, (*ask).appNew))
	c.page("GET /console/executors/{app}", "app", (*ask).app)
	c.form("POST /console/executors/{app}", access.Operate, onPage("app", (*ask).app, (*ask).appDo))
	c.page("GET /console/notifications", "notifications", (*ask).notifications)
	c.form("POST /console/notifications", access.Edit, onPage("notifications", (*ask).notifications, (*ask).notificationsDo))
	c.page("GET /console/notifications/{channel}", "channel", (*ask).channel)
	c.form("POST /console/notifications/{channel}", access.Operate, onPage("channel", (*ask).channel, (*ask).channelDo))
	c.page("GET /console/reports", "reports", (*ask).reports)
	c.page("GET /console/lateness", "lateness", (*ask).lateness)
	c.page("GET /console/runs", "runs", (*ask).runs)
	c.page("GET /console/runs/clean", "clean", (*ask).clean)
	c.form("POST /console/runs/clean", access.Edit, (*ask).cleanRuns)
	c.page("GET /console/runs/rerun", "runs", (*ask).listed)
	c.form("POST /console/runs/rerun", access.Operate, (*ask).rerunRuns)
	c.page("GET /console/runs/{run}", "run", (*ask).runByID)
	c.page("GET /console/jobs/{app}/{name}/at/{instant}", "run", (*ask).runAt)
	c.form("POST /console/runs/{run}/kill", access.Operate, onRun("kill", (*ask).killRun))
	c.form("POST /console/runs/{run}/cancel", access.Operate, onRun("cancel", (*ask).cancelRun))
	c.form("POST /console/runs/{run}/rerun", access.Operate, onRun("rerun", (*ask).rerun))
	c.page("GET /console/runs/{run}/log", "log", (*ask).logShown)
	c.handle("GET /console/runs/{run}/log/lines", (*ask).logPieces)
	c.handle("GET /console/runs/{run}/log/text", (*ask).logFile)
	c.page("GET /console/jobs/{app}/{name}", "job", (*ask).job)
	c.page("GET /console/jobs/new", "jobform", (*ask).newJob)
	c.form("POST /console/jobs/new", access.Edit, (*ask).saveJob)
	c.form("POST /console/jobs/{app}/{name}/edit", access.Edit, (*ask).saveJob)
	c.form("POST /console/jobs/{app}/{name}/manifest", access.Edit, (*ask).saveManifest)
	c.form("POST /console/jobs/{app}/{name}/trigger", access.Operate, onJob("run", (*ask).triggerJob))
	c.form("POST /console/jobs/{app}/{name}/pause", access.Operate, onJob("pause", (*ask).pauseJob))
	c.form("POST /console/jobs/{app}/{name}/resume", access.Operate, onJob("resume", (*ask).resumeJob))
	c.form("POST /console/jobs/{app}/{name}/kill", access.Operate, onJob("kill", (*ask).killJob))
	c.form("POST /console/jobs/{app}/{name}/label", access.Edit, onJob("label", (*ask).labelJob))
	c.form("POST /console/jobs/{app}/{name}/return-to-code", access.Edit, onJob("return-to-code", (*ask).returnJobToCode))
	c.form("POST /console/jobs/{app}/{name}/delete", access.Edit, onJob("delete", (*ask).deleteJob))
	c.page("GET /console/scripts", "scripts", (*ask).scripts)
	c.page("GET /console/jobs/{app}/{name}/script", "script", (*ask).script)
	c.form("POST /console/jobs/{app}/{name}/script", access.Script, (*ask).saveScript)
	c.page("GET /console/audit-log", "audit-log", (*ask).auditLog)
	c.page("GET /console/jobs/{app}/{name}/audit-log", "audit-log", (*ask).auditLog)
	c.form("POST /console/jobs/{app}/{name}/restore", access.Edit, (*ask).restoreJob)
	c.page("GET /console/find", "find", (*ask).find)
	c.handle("GET /console/find/list", (*ask).findList)
	c.handle("GET /console/find/names", (*ask).findNames)
	c.page("GET /console/keys", "keys", (*ask).keys)
	c.page("GET /console/system", "system", (*ask).system)
	c.form("POST /console/system", access.Operate, onPage("system", (*ask).system, (*ask).operate))
	c.page("GET /console/upcoming", "upcoming", (*ask).upcoming)
	c.page("GET /console/account", "account", (*ask).account)
	c.form("POST /console/account", access.Own, onPage("account", (*ask).account, (*ask).accountDo))
	c.page("GET /console/users", "users", (*ask).users)
	c.form("POST /console/users", access.Administer, onPage("users", (*ask).users, (*ask).usersDo))
	c.mux.HandleFunc("POST /console/settings", c.settings)

	c.menu = []entry{
		{"overview", Root, core.Say("Overview"), 0, "overview"},
		{"jobs", Root + "jobs", core.Say("Jobs"), 0, "get"},
		{"runs", Root + "runs", core.Say("Runs"), 0, "runs"},
		{"upcoming", Root + "upcoming", core.Say("Upcoming"), 0, "upcoming"},
		{"executors", Root + "executors", core.Say("Executors"), 0, "executors"},
		{"lateness", Root + "lateness", core.Say("Lateness"), 1, "lateness"},
		{"reports", Root + "reports", core.Say("Reports"), 1, "report"},
		{"notifications", Root + "notifications", core.Say("Notifications"), 1, "get channels"},
		{"scripts", Root + "scripts", core.Say("Scripts"), 1, "script"},
		{"audit-log", Root + "audit-log", core.Say("Audit log"), 1, "changes"},
		{"users", Root + "users", core.Say("Users"), 2, "users"},
		{"system", Root + "system", core.Say("System"), 2, "doctor, tickring audit, tickring redrive"},
	}
}
