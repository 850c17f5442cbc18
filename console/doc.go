// Package console is the pages for people, under /console: HTML from the server, over
// the API, which it asks in this process as whoever is logged in.
//
// It owns no rule and no query: who may do what, what is found and what is refused the
// API says, and its words are shown as they came. A page is a function of a request
// (a file an idea: jobs.go), which asks the API and fills a template of the same name
// (pages/jobs.html); a form of it is posted, done by the API, and answered by going on to
// a page. The URL of a page carries all its state: filters, sort, range, the open panel.
//
// How a page is written:
//
//	c.page("GET /console/jobs", "jobs", (*ask).jobs)     // pages/jobs.html, in the menu as jobs
//	c.form("POST /console/jobs/bulk", access.Operate, (*ask).bulk) // answers where to go on
//
// Templates get a view: .Data is what the page's function answered, and the methods of ask
// are the forms that all pages share (view.go): {{$.Say "Jobs"}}, {{$.Time .At}},
// {{$.State .Run}}, {{$.Bars .Runs}}. Every sentence goes through Say, whose code is English
// and whose Chinese is in package words.
//
// It refuses markup in data (html/template escapes by construction), scripts and styles
// inside of pages (the policy of content allows none), hosts of others, and every change
// that was not posted by one of its own pages.
package console
