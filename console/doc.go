// Package console serves the web pages for users under /console. The server renders HTML from answers of the API. The
// console calls the API in this process, with the permissions of the logged-in user.
//
// The console has no rules and no queries of its own. The API decides permissions, finds data and rejects invalid
// input, and pages show the messages of the API unchanged. Each page is a function in a Go file for its subject, such
// as jobs.go. The function calls the API and fills the template of the page, such as pages/jobs.html. When a user
// sends a form, the console calls the API and redirects the browser to a page. The URL of a page has all its state:
// filters, sort order, time range, open panel.
//
// The following calls add a page and a form:
//
//	c.page("GET /console/jobs", "jobs", (*ask).jobs)     // pages/jobs.html, in the menu as jobs
//	c.form("POST /console/jobs/bulk", access.Operate, (*ask).bulk) // returns the next page
//
// If a form is rejected, onPage shows the page of the form again. Its template gets the error from {{$.Wrong}}, and the
// input from {{$.Or "name" "default"}}.
//
// A call that fails ends its page: must.Get returns the result of a call, or shows the error in place of the page.
//
// A template gets a view. The field .Data is the result of the page's function. The methods of ask format values for
// all pages (view.go): {{$.Say "Jobs"}}, {{$.Time .At}}, {{$.State .Run}}, {{$.Bars .Runs}}. Every sentence on a page
// is the English argument of Say, and package words has its Chinese translation.
//
// Data never becomes HTML markup, because html/template escapes it. The content security policy blocks inline scripts,
// inline styles and other hosts. The console accepts changes only from forms on its own pages.
package console
