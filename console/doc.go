// Package console serves the web pages for users under /console. It renders HTML on the server from answers of the
// API, which it calls in this process as the logged-in user.
//
// It has no rules and no queries of its own. The API decides permissions, finds data and rejects input, and pages
// show its messages unchanged. A page is a function (one file for each subject: jobs.go) that calls the API and fills
// a template of the same name (pages/jobs.html). A form is posted, the API handles it, and the browser is redirected
// to a page. The URL of a page has all its state: filters, sort order, time range, open panel.
//
// How to write a page:
//
//	c.page("GET /console/jobs", "jobs", (*ask).jobs)     // pages/jobs.html, in the menu as jobs
//	c.form("POST /console/jobs/bulk", access.Operate, (*ask).bulk) // returns the next page
//
// A template gets a view: .Data is the result of the page's function, and the methods of ask format values for all
// pages (view.go): {{$.Say "Jobs"}}, {{$.Time .At}}, {{$.State .Run}}, {{$.Bars .Runs}}. Every sentence goes through
// Say with the English text; package words has the Chinese translation.
//
// Data never becomes markup (html/template escapes it). The content policy blocks inline scripts and styles and other
// hosts. Changes are accepted only from forms of the console's own pages.
package console
