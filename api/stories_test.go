package api_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// stories are requests, one a line, which are sent in turn at noon of 20 November 2026: by an admin, or by the caller
// after @. The header Accept-Language follows ~. A request after ! must change nothing. FAIL ends a run as its executor
// does.
var stories = map[string]string{
	"jobs": `
GET /v1/jobs/shop/report
GET /v1/jobs/1
PUT /v1/apps/shop {"token":"another-token"}
GET /v1/changes
GET /v1/apps
GET /v1/apps/shop
POST /v1/jobs/shop/report/pause {"reason":"db upgrade","until":"2026-11-20T13:00:00Z"}
GET /v1/changes?job=shop/report&limit=1
GET /v1/jobs?state=paused&last=true
POST /v1/jobs/shop/report/resume {}
GET /v1/upcoming?for=7d
GET /v1/upcoming/histogram?for=2d&buckets=4
GET /v1/audit?from=2026-11-20T11:00:00Z&to=2026-11-20T12:00:00Z
GET /v1/status
GET /v1/apps/web/executors
DELETE /v1/jobs/shop/report
GET /v1/jobs/shop/report
`,
	// A pause of an app or of everything changes no job. Each job still shows which pause holds it and until when, and
	// its next times are after the pause.
	"pauses": `
POST /v1/apps/shop/pause {"reason":"db","until":"2026-11-23T12:00:00Z"}
GET /v1/jobs/shop/report
GET /v1/jobs
POST /v1/pause {"reason":"holidays"}
GET /v1/status
GET /v1/jobs/shop/report
GET /v1/jobs
POST /v1/resume
GET /v1/jobs/shop/report
POST /v1/apps/shop/resume
GET /v1/jobs/shop/report
`,
	// A pause changes only what differs, and its start stays. A resume ends it a little later.
	"pauses again": `
POST /v1/apps/shop/pause {"reason":"move"}
POST /v1/apps/shop/pause
POST /v1/apps/shop/pause {"until":"2026-11-23T12:00:00Z"}
GET /v1/apps/shop
POST /v1/apps/shop/resume {"reason":"done"}
POST /v1/apps/shop/resume
POST /v1/pause {"reason":"move"}
POST /v1/pause
POST /v1/pause {"until":"2026-11-23T12:00:00Z"}
GET /v1/status
POST /v1/resume {"reason":"done"}
POST /v1/resume
GET /v1/jobs/shop/report
GET /v1/changes
`,
	// An app keeps its token unless a request sets one.
	"apps": `
PUT /v1/apps/pay {"token":"another-token","executors":["call:https://pay.example.com"],"allow":["10.1.2.3/8","::1"]}
PUT /v1/apps/pay {"executors":["call:https://pay.example.com"],"allow":["10.1.2.3/8","::1"]}
PUT /v1/apps/pay {"title":"Pay","executors":["call:https://pay.example.com"],"allow":["10.1.2.3/8","::1"]}
GET /v1/apps/pay
GET /v1/apps/pay/executors
GET /v1/changes?app=pay
! PUT /v1/apps/x%20y {}
! PUT /v1/apps/p {"executors":["queue:mail.fifo"]}
! PUT /v1/apps/p {"executors":["http://a","http://a"]}
! PUT /v1/apps/pay {"ifRev":1}
`,
	// An edit does not undo a pause, and a dry run changes nothing.
	"saves": `
PUT /v1/jobs/shop/sweep {"handler":"x","schedule":{"every":"10s"}}
PUT /v1/jobs/shop/sweep {"handler":"x","schedule":{"every":"10s"}}
! POST /v1/apply {"dryRun":true,"jobs":[{"app":"shop","name":"sweep","handler":"x","params":"day","schedule":{"every":"10s"}}]}
PUT /v1/jobs/shop/sweep {"handler":"x","params":"day","schedule":{"every":"10s"}}
PUT /v1/jobs/shop/sweep {"handler":"x","params":"day","schedule":{"every":"10s"},"paused":true}
PUT /v1/jobs/shop/sweep {"handler":"x","params":"day","title":"Sweep","schedule":{"every":"10s"}}
GET /v1/jobs/shop/sweep
GET /v1/changes?job=shop/sweep
`,
	// The preview of a schedule that spreads by job number uses the number of the job.
	"preview": `
! POST /v1/preview {"schedule":{"crontab":"0 9 * * 1-5"},"count":3}
PUT /v1/jobs/shop/one {"handler":"hourly","schedule":{"every":"1h"}}
PUT /v1/jobs/shop/two {"handler":"hourly","schedule":{"every":"1h"}}
GET /v1/jobs/shop/one
POST /v1/preview {"schedule":{"every":"1h"},"jobId":2,"count":1}
GET /v1/jobs/shop/two
POST /v1/preview {"schedule":{"every":"1h"},"jobId":3,"count":1}
POST /v1/preview {"schedule":{"every":"1h"},"jobId":-1}
`,
	// A declared job belongs to its code until a user changes or deletes it, and again once it is returned to code.
	"declared": `
PUT /v1/jobs/shop/clean {"handler":"clean","declared":true,"params":"one"}
GET /v1/jobs/shop/clean
POST /v1/apply {"jobs":[{"app":"shop","name":"clean","handler":"clean","params":"theirs"}]}
GET /v1/jobs/shop/clean
! PUT /v1/jobs/shop/clean {"handler":"clean","declared":true,"params":"two"}
POST /v1/jobs/shop/clean/return-to-code
PUT /v1/jobs/shop/clean {"handler":"clean","declared":true,"params":"two"}
DELETE /v1/jobs/shop/clean
GET /v1/apps/shop
! PUT /v1/jobs/shop/clean {"handler":"clean","declared":true,"params":"three"}
POST /v1/jobs/shop/clean/return-to-code
PUT /v1/jobs/shop/clean {"handler":"clean","declared":true,"params":"three"}
POST /v1/jobs/shop/none/return-to-code
`,
	"runs": `
POST /v1/jobs/shop/report/trigger {"key":"k1","at":"2026-11-20T14:00:00Z","params":"","cause":"manual"}
POST /v1/jobs/shop/report/trigger {"key":"k1"}
GET /v1/runs/6442450945
GET /v1/jobs/shop/report/waiting/k1
GET /v1/jobs/shop/report/waiting
GET /v1/upcoming?for=3h
PATCH /v1/jobs/shop/report/waiting/k1 {"at":"2026-11-20T15:00:00Z","params":"other","addresses":["http://10.0.0.9:9999"]}
PATCH /v1/runs/6442450945 {"at":"2026-11-20T14:00:00Z","addresses":[]}
! PATCH /v1/runs/6442450945 {}
! PATCH /v1/runs/6442450945 {"slot":1}
! PATCH /v1/runs/6442450945 {"at":"soon"}
! PATCH /v1/runs/6442450945
DELETE /v1/jobs/shop/report/waiting/k1
DELETE /v1/jobs/shop/report/waiting/k1
GET /v1/jobs/shop/report/waiting/k1
! PATCH /v1/runs/6442450945 {"params":"x"}
POST /v1/jobs/shop/report/trigger
FAIL 6442450947
GET /v1/runs?job=shop/report&state=failed&state=lost
GET /v1/runs/6442450947/log?from=2
GET /v1/jobs/shop/report/runs/2026-11-01T02:30
POST /v1/jobs/shop/report/kill
POST /v1/jobs/shop/report/trigger {"params":"now","addresses":["http://10.0.0.1:9999"],"retries":0,"cause":"manual"}
GET /v1/runs?job=shop/report&limit=1
GET /v1/runs/6442450947/log?tail=2
GET /v1/runs/6442450947/log?from=3
! GET /v1/runs/6442450947/log?tail=0
! GET /v1/runs/6442450947/log?tail=2&from=2
`,
	"apply": `
! POST /v1/apply {"set":"prod","dryRun":true,"apps":[PAY],"jobs":[SALARIES,AUDIT]}
! POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,AUDIT,{"app":"pay","name":"x","handler":"no path"}]}
! POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,AUDIT,{"app":"pay","name":"x","handler":"POST /x","schedule":{"cron":"* *"}}]}
! POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,AUDIT,{"app":"pay","name":"x","handler":"POST /x","timeout":"5"}]}
! POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,AUDIT,{"app":"none","name":"x","handler":"x"}]}
! POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,{"app":"pay","name":"x","handler":"POST /x","notify":{"to":["nope"]}}]}
! POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,AUDIT,SALARIES]}
! POST /v1/apply {"set":"prod","apps":[{"name":"pay","notify":{"to":["nope"]}}],"jobs":[SALARIES,AUDIT]}
POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,AUDIT]}
! POST /v1/apply {"set":"prod","apps":[PAY],"jobs":[SALARIES,AUDIT]}
! POST /v1/apply {"set":"prod","prune":true,"dryRun":true,"apps":[PAYROLL],"jobs":[LATER]}
POST /v1/apply {"set":"prod","prune":true,"apps":[PAYROLL],"jobs":[LATER]}
! POST /v1/apply {"set":"other","apps":[PAYROLL],"jobs":[LATER]}
POST /v1/apply {"apps":[{"name":"shop","executors":["call:https://x.example"]}],"jobs":[{"app":"shop","name":"report","handler":"POST /x"}]}
POST /v1/apply {"apps":[{"name":"shop"}],"jobs":[{"app":"shop","name":"report","handler":"report"}]}
POST /v1/apply {"apps":[{"name":"shop","executors":["call:https://x.example"]}],"jobs":[EXPECTING]}
`,
	// Without retention a job has 30 days, and 0 means forever. A change without retention resets it to 30. An
	// empty list is rejected, because it would be stored as absent and the app's setting would apply.
	"retention": `
PUT /v1/jobs/shop/report {"handler":"h"}
GET /v1/jobs/shop/report
PUT /v1/jobs/shop/report {"handler":"h","retention":{"days":0}}
GET /v1/jobs/shop/report
PUT /v1/jobs/shop/report {"handler":"h","retention":{}}
GET /v1/jobs/shop/report
PUT /v1/jobs/shop/report {"handler":"h","retention":{"days":7}}
GET /v1/jobs/shop/report
PUT /v1/jobs/shop/report {"handler":"h","retention":{"days":null}}
GET /v1/jobs/shop/report
POST /v1/apply {"jobs":[{"app":"shop","name":"report","handler":"h","retention":{"days":0}}]}
GET /v1/jobs/shop/report
POST /v1/apply {"jobs":[{"app":"shop","name":"report","handler":"h"}]}
GET /v1/jobs/shop/report
! PUT /v1/jobs/shop/report {"handler":"h","retention":{"days":-1}}
! PUT /v1/jobs/shop/report {"handler":"h","retention":{"days":3651}}
! PUT /v1/jobs/shop/report {"handler":"h","notify":{"to":[]}}
! PUT /v1/jobs/shop/report {"handler":"h","notify":{"on":[]}}
`,
	// The list of jobs with their status has counts, the last runs in brief and a cursor.
	"jobs now": `
PUT /v1/jobs/shop/second {"handler":"x","schedule":{"every":"5m"}}
GET /v1/overview
POST /v1/jobs/shop/second/trigger {}
POST /v1/jobs/shop/report/pause {"reason":"broken"}
GET /v1/jobs?sort=name&reverse=true&counts=true&runs=3&limit=1
GET /v1/jobs?sort=name&reverse=true&limit=1&cursor=shop/second%402
GET /v1/jobs?status=paused
GET /v1/jobs?status=odd
GET /v1/jobs?sort=odd
GET /v1/jobs?runs=31
GET /v1/jobs?sort=name&after=3
GET /v1/jobs?counts=true&cursor=x
`,
	"bulk": `
PUT /v1/jobs/shop/second {"handler":"x","schedule":{"every":"1h"},"labels":{"tier":"gold"}}
! POST /v1/bulk {"verb":"pause","filter":{"app":"shop"},"dryRun":true}
POST /v1/bulk {"verb":"pause","filter":{"label":["tier=gold"]},"reason":"moves","operation":"act-1"}
GET /v1/changes?job=shop/second&limit=1
POST /v1/bulk {"verb":"resume","undo":"admin-token/act-1","operation":"act-2"}
POST /v1/bulk {"verb":"trigger","jobs":["shop/second","shop/report"],"cause":"manual","operation":"act-3"}
! POST /v1/bulk {"verb":"odd","jobs":["shop/report"]}
! POST /v1/bulk {"verb":"pause"}
! POST /v1/bulk {"verb":"trigger","jobs":["shop/report"],"cause":"retry"}
! POST /v1/bulk {"verb":"pause","filter":{"status":["odd"]}}
! POST /v1/bulk {"verb":"pause","jobs":["shop/report"],"operation":"a b"}
! POST /v1/bulk {"verb":"pause","jobs":["shop/report"],"undo":"act-1"}
POST /v1/bulk {"verb":"label","jobs":["shop/report"],"labels":{"a b":"c"},"operation":"act-4"}
`,
	// The dry run of a user with the permission in some apps counts the jobs of these apps alone. For a user without the
	// permission it counts all visible jobs, and the operation itself is rejected.
	"bulk rights": `
PUT /v1/apps/pay {"token":"token-of-pay","executors":["call:https://pay.example.com"]}
PUT /v1/jobs/pay/bills {"handler":"POST /x","schedule":{"every":"1h"}}
! @vic POST /v1/bulk {"verb":"kill","filter":{},"dryRun":true}
! @vic POST /v1/bulk {"verb":"delete","filter":{},"dryRun":true}
! @vip POST /v1/bulk {"verb":"pause","filter":{},"dryRun":true}
! @vip POST /v1/bulk {"verb":"label","filter":{},"labels":{"a":"b"},"dryRun":true}
! @olga POST /v1/bulk {"verb":"kill","filter":{},"dryRun":true}
! @olga POST /v1/bulk {"verb":"delete","filter":{},"dryRun":true}
! @olga POST /v1/bulk {"verb":"delete","filter":{}}
! @olga POST /v1/bulk {"verb":"label","filter":{},"labels":{"a":"b"}}
! @anna POST /v1/bulk {"verb":"pause","filter":{},"dryRun":true}
! @anna POST /v1/bulk {"verb":"pause","filter":{}}
! @vera POST /v1/bulk {"verb":"kill","filter":{},"dryRun":true}
! @vera POST /v1/bulk {"verb":"kill","filter":{}}
@olga POST /v1/bulk {"verb":"pause","filter":{},"operation":"act-1"}
@vip POST /v1/bulk {"verb":"label","filter":{},"labels":{"a":"b"},"operation":"act-2"}
@vic POST /v1/bulk {"verb":"resume","filter":{},"operation":"act-3"}
@vic POST /v1/bulk {"verb":"delete","filter":{},"operation":"act-4"}
`,
	// A user reruns only runs of jobs that the user may trigger, and learns of no other runs than the visible ones.
	"reruns": `
PUT /v1/apps/pay {"token":"token-of-pay","executors":["call:https://pay.example.com"]}
PUT /v1/jobs/pay/bills {"handler":"POST /x","schedule":{"every":"1h"}}
PUT /v1/apps/third {}
PUT /v1/jobs/third/hidden {"handler":"x"}
POST /v1/jobs/shop/report/trigger {"retries":0}
FAIL 6442450945
POST /v1/jobs/pay/bills/trigger {}
FAIL 10737418241
POST /v1/jobs/third/hidden/trigger {}
FAIL 15032385537
! @paul POST /v1/rerun {"key":"k"}
@paul POST /v1/rerun {"failed":true,"key":"k","params":"x"}
`,
	// The params of a run go to no address that another user chose, because the request has the token of the app.
	"addresses of others": `
POST /v1/jobs/shop/report/trigger {"params":"p","retries":0,"addresses":["http://10.6.6.6"]}
FAIL 6442450945
! @otto POST /v1/rerun {"run":"6442450945","params":"x"}
@otto POST /v1/rerun {"job":"shop/report","state":["failed"],"key":"many"}
POST /v1/rerun {"run":"6442450945","params":"x"}
POST /v1/jobs/shop/report/trigger {"key":"later","at":"2026-11-20T14:00:00Z","addresses":["http://10.6.6.6"]}
! @otto PATCH /v1/jobs/shop/report/waiting/later {"params":"x"}
@otto PATCH /v1/jobs/shop/report/waiting/later {"at":"2026-11-20T15:00:00Z"}
PATCH /v1/jobs/shop/report/waiting/later {"params":"x"}
`,
	// A test of an executor that answers, and of one that does not. An address that is not in the app gets no request,
	// because the request would have the app's token.
	"tests of executors": `
PUT /v1/apps/fixed {"token":"another-token","executors":["http://10.0.0.1:9999","http://dead:9999"]}
POST /v1/apps/fixed/executors/test {"address":"http://10.0.0.1:9999"}
POST /v1/apps/fixed/executors/test {"address":"http://dead:9999"}
! POST /v1/apps/fixed/executors/test {"address":"http://10.6.6.6:1"}
`,
	// A token of a machine that allows less than a request needs is rejected with the reason.
	"machines": `
PUT /v1/apps/pay {"token":"token-of-pay","executors":["call:https://pay.example.com"]}
PUT /v1/jobs/pay/bills {"handler":"POST /x","schedule":{"every":"1h"}}
! @reader PUT /v1/jobs/shop/report {}
! @nobody POST /v1/pause {}
! @pay GET /v1/apps/shop
! @code POST /v1/apply {"handler":"report","declared":true}
! @nobody PUT /v1/jobs/shop/report {}
! @pay PUT /v1/jobs/shop/report {"handler":"report","declared":true}
! @code PUT /v1/jobs/shop/report {"handler":"report"}
! @code PUT /v1/jobs/shop/report {"handler":"other","declared":true}
! @code PUT /v1/jobs/shop/report {"command":{"line":"id"}}
! @code PUT /v1/jobs/shop/report {"command":{"line":"id"},"declared":true}
! @code PUT /v1/jobs/shop/report {"script":{"kind":"shell","source":"id"},"declared":true}
! @code PUT /v1/jobs/shop/report {"handler":"report","declared":true,"app":"pay"}
! @code PUT /v1/jobs/pay/report {"handler":"report","declared":true}
! @code PUT /v1/jobs/web/report {"handler":"report","declared":true}
! @code PUT /v1/jobs/none/report {"handler":"report","declared":true}
! @code PUT /v1/jobs/shop%2fx/report {"handler":"report","declared":true}
@reader GET /v1/nothing
@reader GET /v1/apps
`,
	// Code creates and changes jobs under its own name. It can neither pause nor resume a job, and limits its own job
	// alone: other apps can share a group.
	"code": `
@code PUT /v1/jobs/shop/fresh {"handler":"x","declared":true}
@code PUT /v1/jobs/shop/fresh {"handler":"x","declared":true,"params":"p"}
GET /v1/changes?job=shop/fresh
POST /v1/jobs/shop/fresh/pause
! @code PUT /v1/jobs/shop/fresh {"handler":"x","declared":true,"params":"p","paused":false}
! @code PUT /v1/jobs/shop/report {"handler":"x","declared":true,"params":"p","paused":false}
! @code PUT /v1/jobs/shop/a {"handler":"x","declared":true,"overlap":{"limit":1,"group":"db"}}
@code PUT /v1/jobs/shop/a {"handler":"x","declared":true,"overlap":{"limit":1}}
PUT /v1/jobs/shop/a {"handler":"x","declared":true,"overlap":{"limit":1,"group":"db"}}
PUT /v1/apps/shop {"token":"another-token"}
! @code PUT /v1/jobs/shop/fresh {"handler":"x","declared":true,"params":"q"}
`,
	// An update is judged by the app that the job has. A child job gets data from its parent, which cannot be deleted then.
	"apps of jobs": `
PUT /v1/apps/pay {"token":"token-of-pay","executors":["call:https://pay.example.com"]}
PUT /v1/jobs/pay/bills {"handler":"POST /x","schedule":{"every":"1h"}}
! @sam PUT /v1/jobs/pay/bills {"app":"shop","name":"bills","handler":"x"}
! @sam PUT /v1/jobs/shop/bills {"app":"pay","name":"bills","handler":"x"}
! @sam POST /v1/apply {"jobs":[{"app":"pay","name":"bills","handler":"x"}]}
! @sam PUT /v1/jobs/shop/spy {"handler":"x","after":[{"job":"pay/bills"}]}
! @sam GET /v1/jobs/pay/bills
! @sam GET /v1/jobs/2
! @sam DELETE /v1/jobs/pay/bills
`,
	// A dry run compares no secret for a caller who may set none.
	"dry runs": `
PUT /v1/apps/pay {"token":"token-of-pay","executors":["call:https://pay.example.com"]}
PUT /v1/jobs/pay/bills {"handler":"POST /x","schedule":{"every":"1h"}}
! @anna POST /v1/apply {"dryRun":true,"apps":[{"name":"pay","token":"token-of-pay"}]}
! @anna POST /v1/apply {"dryRun":true,"apps":[{"name":"pay","call":{"auth":{"bearer":"guess"}}}]}
! @anna POST /v1/apply {"dryRun":true,"jobs":[{"app":"pay","name":"bills","handler":"POST /x","call":{"auth":{"bearer":"guess"}}}]}
! @anna POST /v1/apply {"dryRun":true,"jobs":[{"app":"pay","name":"bills","command":{"line":"x","env":{"A":"guess"},"hidden":["A"]}}]}
! @anna POST /v1/apply {"dryRun":true,"channels":[{"name":"c","feishu":{"url":"https://open.feishu.cn/open-apis/bot/v2/hook/guess"}}]}
! @anna POST /v1/apply {"dryRun":true,"apps":[{"name":"pay","title":"Pay"}]}
`,
	// The secrets of an app are not removed without the right to secrets.
	"secrets": `
PUT /v1/apps/empty {"token":"token-of-empty-token-of-empty"}
PUT /v1/apps/called {"executors":["call:https://a.example.com"],"call":{"auth":{"bearer":"b"}}}
! @edda DELETE /v1/apps/empty
! @edda PUT /v1/apps/called {"executors":["call:https://a.example.com"]}
! @edda POST /v1/apply {"set":"s","prune":true}
@sven DELETE /v1/apps/empty
`,
	// The secrets of a call are in no answer. What an answer shows can be saved again, and keeps them.
	"call options": `
PUT /v1/apps/web {"executors":["call:https://a.example.com"],"call":{"headers":{"X-App":"pay","X-Team":"all"},"expect":[200,202]}}
PUT /v1/jobs/web/warm {"handler":"POST /x","call":{HEADERS,"auth":{"bearer":"hunter2"}}}
GET /v1/jobs/web/warm
POST /v1/apply {"jobs":[{"app":"web","name":"warm","handler":"POST /x","call":{SHOWN,"auth":{"bearer":"***"}}}]}
PUT /v1/jobs/web/warm {"handler":"POST /x","call":{SHOWN,"auth":{"bearer":"hunter2-2"}}}
! PUT /v1/jobs/web/warm {"handler":"POST /x","call":{"auth":{"basic":{"user":"u","password":"***"}}}}
GET /v1/changes?job=web/warm
GET /v1/jobs
GET /v1/apps
`,
	// A user without a special permission can change the rest of a job or app that has a field with that permission.
	"rights": `
PUT /v1/jobs/shop/scripted {"script":{"kind":"shell","source":"id"}}
PUT /v1/apps/shop {"title":"Shop","allow":["10.0.0.0/8"],"executors":["http://10.0.0.1:9999"]}
@edi PUT /v1/jobs/shop/scripted {"params":"p","script":{"kind":"shell","hash":"HASH"}}
! @edi PUT /v1/jobs/shop/scripted {"params":"p","script":{"kind":"python","hash":"HASH"}}
! @edi PUT /v1/jobs/shop/scripted {"script":{"kind":"shell","source":"id; id"}}
@edi PUT /v1/apps/shop {"title":"Store","allow":["10.0.0.0/8"],"executors":["http://10.0.0.1:9999"]}
! @edi PUT /v1/apps/shop {"title":"Store","allow":["10.0.0.0/8"],"executors":["http://10.0.0.2:9999"]}
`,
	// Shared views are for people with a role, and name no app that one does not see.
	"views": `
! @nora PUT /v1/me/views {"name":"spam","page":"runs","query":"","shared":true}
@anna PUT /v1/me/views {"name":"of pay","page":"runs","query":"app=pay","shared":true}
@anna PUT /v1/me/views {"name":"bills","page":"runs","query":"job=pay%2Fbills","shared":true}
@anna PUT /v1/me/views {"name":"of shop","page":"runs","query":"app=shop","shared":true}
@vera GET /v1/me/views
`,
	// A user who can see an app can read its logs. A run of another app is answered as one that does not exist.
	"logs": `
PUT /v1/apps/pay {"token":"token-of-pay","executors":["call:https://pay.example.com"]}
PUT /v1/jobs/pay/bills {"handler":"POST /x","schedule":{"every":"1h"}}
POST /v1/jobs/pay/bills/trigger {"key":"k","at":"2026-11-20T13:00:00Z"}
@sam GET /v1/runs/10737418241
@sam GET /v1/runs/10737418241/log
@sam GET /v1/runs/8589999999/log
`,
	// An error names the jobs of apps that the caller sees, and counts the others.
	"hidden jobs": `
PUT /v1/apps/pay {"token":"token-of-pay","executors":["call:https://pay.example.com"]}
PUT /v1/jobs/pay/bills {"handler":"POST /x","schedule":{"every":"1h"}}
@code PUT /v1/jobs/shop/coded {"declared":true,"handler":"x"}
PUT /v1/jobs/pay/scan {"handler":"POST /x","after":[{"job":"shop/report"}]}
PUT /v1/jobs/shop/sums {"handler":"POST /x","after":[{"job":"pay/scan"}]}
PUT /v1/jobs/pay/last {"handler":"POST /x","after":[{"job":"shop/coded"}]}
PUT /v1/jobs/shop/end {"handler":"POST /x","after":[{"job":"pay/last"}]}
! @edi DELETE /v1/jobs/shop/report
! DELETE /v1/jobs/shop/report
@edi POST /v1/bulk {"verb":"delete","jobs":["shop/report"],"operation":"act-1"}
POST /v1/bulk {"verb":"delete","jobs":["shop/report"],"operation":"act-2"}
! @edi PUT /v1/jobs/shop/report {"handler":"report","after":[{"job":"shop/sums"}]}
! PUT /v1/jobs/shop/report {"handler":"report","after":[{"job":"shop/sums"}]}
! @vera POST /v1/apply {"dryRun":true,"jobs":[{"handler":"report","after":[{"job":"shop/sums"}],"app":"shop","name":"report"}]}
! POST /v1/apply {"dryRun":true,"jobs":[{"handler":"report","after":[{"job":"shop/sums"}],"app":"shop","name":"report"}]}
! @code PUT /v1/jobs/shop/coded {"declared":true,"handler":"x","after":[{"job":"shop/end"}]}
! PUT /v1/jobs/shop/coded {"declared":true,"handler":"x","after":[{"job":"shop/end"}]}
`,
	// A user who sees all apps but is no admin sees no changes of accounts.
	"accounts": `
@ada GET /v1/changes?user=ada
@anna GET /v1/changes?user=ada
@anna GET /v1/changes
@edda GET /v1/changes?user=ada
! @ada POST /v1/me/tokens {"name":"x","grants":[]}
`,
	// The texts of an answer are in the requested language. Codes, fields and values are the same in each.
	"languages": `
GET /v1/apps/none
@~zh-CN,zh;q=0.9,en;q=0.8 GET /v1/apps/none
@~en-US,zh;q=0.5 GET /v1/apps/none
@~zh GET /v1/nothing
@~zh GET /v1/jobs?limit=x
@~zh DELETE /v1/status
@~zh PUT /v1/apps/shop {"title":1}
@~zh PUT /v1/jobs/shop/report {"handler":"report","route":"nearest"}
@~zh POST /v1/apply {"jobs":[{"app":"none","name":"a","handler":"h"}]}
@~zh PUT /v1/apps/far {"executors":["ftp://x"]}
@~zh PUT /v1/jobs/shop/report {"handler":"report","route":"FAILOVER"}
@~zh GET /v1/jobs/shop/report
@~zh GET /v1/jobs/shop/report/runs/2020-01-01T02:30
@~zh GET /v1/jobs
@~zh POST /v1/preview {"schedule":{"every":"90m"},"count":1}
PUT /v1/channels/ops {"language":"fr","slack":{"url":"https://hooks.slack.com/services/T"}}
`,
	// Each record has the address of the caller, and the kind of the token unless its author implies it.
	"origins": `
PUT /v1/apps/shop {"title":"Store","executors":["http://10.0.0.1:9999"],"allow":["10.0.0.0/8"]}
PUT /v1/jobs/shop/report {"handler":"report","schedule":{"cron":"0 30 3 * * ?"}}
PUT /v1/jobs/shop/script {"script":{"kind":"shell","source":"id"}}
PUT /v1/jobs/shop/script/script {"kind":"shell","source":"id -u"}
@code PUT /v1/jobs/shop/coded {"declared":true,"handler":"coded"}
DELETE /v1/jobs/shop/coded
POST /v1/jobs/shop/coded/return-to-code
POST /v1/jobs/shop/report/pause
POST /v1/jobs/shop/report/resume
POST /v1/apps/shop/pause
POST /v1/apps/shop/resume
POST /v1/pause
POST /v1/resume
POST /v1/bulk {"verb":"label","filter":{"app":"shop"},"labels":{"a":"b"},"operation":"act-1"}
POST /v1/jobs/shop/report/trigger {"key":"k","at":"2026-11-20T14:00:00Z","cause":"manual"}
PATCH /v1/jobs/shop/report/waiting/k {"params":"p"}
DELETE /v1/jobs/shop/report/waiting/k
POST /v1/rerun {"job":"shop/report","key":"again"}
POST /v1/jobs/shop/report/kill
PUT /v1/users/olga {"grants":[{"role":"admin"}]}
PUT /v1/users/olga {"disabled":true}
DELETE /v1/users/olga
DELETE /v1/jobs/shop/script
DELETE /v1/jobs/shop/report
DELETE /v1/apps/shop
@edda PUT /v1/apps/by-token {}
GET /v1/changes?limit=1000
`,
	// Each bad request gets an error that names the field and the allowed values.
	"bad input": `
! PUT /v1/jobs/shop/fresh handler=x
! PUT /v1/jobs/shop/fresh {"handler":
! PUT /v1/jobs/shop/fresh
! PUT /v1/jobs/shop/fresh {"handler":"x"} {}
! PUT /v1/jobs/shop/fresh []
! PUT /v1/jobs/shop/fresh {"handler":5}
! PUT /v1/jobs/shop/fresh {"handler":"x","retry":{"max":"three"}}
! POST /v1/apply {"jobs":[{},{"schedule":{"any":[{"every":5}]}}]}
! PUT /v1/jobs/shop/fresh {"handler":"x","retry":{"max":1.5}}
! PUT /v1/jobs/shop/fresh {"handler":"x","handlr":"x"}
! PUT /v1/jobs/shop/fresh {"handler":"x","retention":{"days":7,"log":"sometimes"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","retry":{"maximum":1}}
! PUT /v1/jobs/shop/fresh {"handler":"x","notify":{"to":["oncall"]}}
! PUT /v1/jobs/shop/fresh {"handler":"x","notify":{"on":["calendar-end"]}}
! PUT /v1/jobs/shop/fresh {"handler":"x","overlap":{"group":"db"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","overlap":{"limit":1,"whenFull":"replace","max":5}}
! POST /v1/jobs/shop/report/trigger {"at":"tomorrow"}
! POST /v1/jobs/shop/report/trigger {"at":"0001-01-01T00:00:00Z"}
! PUT /v1/jobs/shop/fresh {"handler":"x","schedule":{"any":[{"at":"0001-01-01T00:00:00Z"},{"every":"5s"}]}}
! POST /v1/jobs/shop/report/trigger {"at":"1970-01-01T00:00:00Z"}
! POST /v1/jobs/shop/report/trigger {"at":"1970-01-01T00:59:59+01:00"}
! GET /v1/runs?to=1970-01-01T00:00:00Z
! GET /v1/reports?from=1970-01-01
! GET /v1/runs?to=0001-01-01T00:00:00Z
! GET /v1/reports?from=2026-11-20T00:00:00Z&to=0001-01-01
! PUT /v1/jobs/shop/fresh {"handler":"LONG"}
! GET /v1/jobs/99999999999
! GET /v1/jobs/0
! GET /v1/runs/99999999999999999999
! POST /v1/runs/-1/kill
! GET /v1/runs/4294967296
! GET /v1/jobs/shop/none
! POST /v1/jobs/shop/none/trigger
! GET /v1/apps/none
! PUT /v1/jobs/none/fresh {"handler":"x","schedule":{"every":"10s"}}
! PUT /v1/jobs/shop/42 {"handler":"x","schedule":{"every":"10s"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","name":"other"}
! PUT /v1/jobs/shop/fresh {"handler":"x","schedule":{"cron":"0 0 0 31 2 ?"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","schedule":{"cron":"30 2 * * *"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","schedule":{"crontab":"0 30 2 * * ?"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","schedule":{"crontab":"30 2 * * *","every":"5s"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","timeout":"-5s"}
! PUT /v1/jobs/shop/fresh {"handler":"x","timeout":"600"}
! PUT /v1/jobs/shop/fresh {"handler":"x","timeout":"30d"}
! POST /v1/jobs/shop/report/trigger {"params":"PARAMS"}
! PUT /v1/jobs/shop/fresh {"schedule":{"every":"10s"}}
! PUT /v1/jobs/shop/report {"handler":"x","ifRev":0}
! PUT /v1/jobs/shop/report {"handler":"x","ifRev":7}
! PUT /v1/jobs/shop/fresh {"handler":"x","ifRev":7}
! PUT /v1/jobs/shop/fresh {"command":{"line":"id"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","schedule":{"at":"2020-09-13T12:26:40Z"}}
! PUT /v1/jobs/shop/fresh {"handler":"x","deadline":"31d"}
! PUT /v1/jobs/web/fresh {"handler":"sweep"}
! DELETE /v1/jobs/shop/report?ifRev=7
! POST /v1/jobs/shop/report/pause {"ifRev":7}
! DELETE /v1/apps/shop
! PUT /v1/apps/shop {"executors":["10.0.0.1:9999"]}
! PUT /v1/apps/shop {"allow":["10.0.0.0/99"]}
! POST /v1/apply {"prune":true}
! GET /v1/runs?limit=many
! GET /v1/runs?limit=5000
! GET /v1/runs?state=done
! GET /v1/runs?from=yesterday
! GET /v1/runs/4294967297/log?from=-1
! GET /v1/runs/4294967297/log?from=2147483648
! GET /v1/runs/4294967297/log?from=18446744073709551617
! GET /v1/audit
! GET /v1/audit?from=2026-11-20T00:00:00Z&to=2026-11-19T00:00:00Z
! GET /v1/upcoming/histogram?for=8d
! GET /v1/upcoming/histogram?buckets=289
! GET /v1/upcoming?for=5
! POST /v1/jobs/shop/report/trigger {"cause":"schedule"}
! POST /v1/jobs/shop/report/trigger {"at":"2020-01-01T00:00:00Z"}
! GET /v1/nothing
! PATCH /v1/jobs
! PUT /v1/apps/shop {"token":12345}
! GET /v1/runs/histogram?buckets=121
! GET /v1/runs/histogram?late=x
! GET /v1/runs/histogram?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z
! GET /v1/lateness?each=x
! GET /v1/lateness?app=a%20b
`,
	"scripts": `
PUT /v1/jobs/shop/clean {"script":{"kind":"shell","source":"#!/bin/sh\r\necho <1> ü\r\n","note":"first"}}
GET /v1/jobs/shop/clean
PUT /v1/jobs/shop/clean/script {"source":"#!/bin/sh\r\necho <2> ü\r\n","note":"second"}
GET /v1/jobs/shop/clean/scripts/0
GET /v1/jobs/shop/clean/scripts/1
GET /v1/jobs/shop/clean/scripts/0/diff
PUT /v1/jobs/shop/clean/script {"version":1}
GET /v1/jobs/shop/clean/scripts/3/diff?from=1
GET /v1/jobs/shop/clean/scripts
! PUT /v1/jobs/shop/clean {"script":{"kind":"perl","source":"x"}}
! PUT /v1/jobs/shop/clean {"script":{"kind":"shell","source":"x","hash":"y"}}
! PUT /v1/jobs/shop/clean {"handler":"h","script":{"kind":"shell","source":"x"}}
! PUT /v1/jobs/shop/clean {}
! PUT /v1/jobs/shop/clean/script {}
! PUT /v1/jobs/shop/clean/script {"version":1,"source":"x"}
! PUT /v1/jobs/shop/clean/script {"version":-1}
! PUT /v1/jobs/shop/clean/script {"version":9}
! PUT /v1/jobs/shop/clean/script {"source":"x","ifRev":1}
! PUT /v1/jobs/shop/report/script {"source":"x"}
! PUT /v1/jobs/shop/none/script {"source":"x"}
GET /v1/jobs/shop/clean/scripts/99
GET /v1/jobs/shop/clean/scripts/x
GET /v1/jobs/shop/clean/scripts/-1/diff
GET /v1/jobs/shop/clean/scripts/99999999999/diff
GET /v1/jobs/shop/clean/scripts/1/diff
`,
	"changes": `
PUT /v1/apps/pay {}
POST /v1/jobs/shop/report/pause {"reason":"r"}
GET /v1/changes?verb=paused
GET /v1/changes?by=admin-token&app=pay
GET /v1/changes?by=nobody
GET /v1/changes?operation=none
GET /v1/changes?channel=none
GET /v1/changes?job=shop/report&verb=created
GET /v1/changes?to=2020-01-01T00:00:00Z
GET /v1/changes?from=2100-01-01T00:00:00Z
GET /v1/changes?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&verb=paused
GET /v1/changes?limit=1
@vera GET /v1/changes
@vera GET /v1/changes?user=vera
GET /v1/changes?verb=broken
GET /v1/changes?after=7
GET /v1/changes?from=x
`,
}

// grants has the grants of the users in stories, and tokens the tokens of other callers.
var (
	grants = map[string][]access.Grant{"ada": {{Role: admin}}, "anna": {{Role: viewer}}, "edda": {{Role: editor}},
		"edi": {{App: "shop", Role: editor}}, "nora": {}, "olga": {{Role: operator}},
		"otto": {{App: "shop", Role: operator}}, "paul": {{App: "shop", Role: operator}, {App: "pay", Role: viewer}},
		"sam": {{App: "shop", Role: admin}}, "sven": {{Role: editor, Rights: []access.Right{access.Secrets}}},
		"vera": {{App: "shop", Role: viewer}}, "vic": {{Role: viewer}, {App: "shop", Role: editor}},
		"vip": {{App: "pay", Role: viewer}, {App: "shop", Role: editor}}}
	tokens = map[string]string{"": token, "reader": readToken, "code": appToken, "pay": "token-of-pay", "nobody": ""}
)

// parts are the parts of requests that would be too long in them.
var parts = strings.NewReplacer("PAYROLL", `{"name":"pay","title":"Pay","executors":["call:https://pay.example"]}`,
	"PAY", `{"name":"pay","executors":["call:https://pay.example"]}`,
	"SALARIES", `{"app":"pay","name":"salaries","handler":"POST /run","schedule":{"any":[{"every":"10s"},{"crontab":"30 2 28 * *"}]}}`,
	"LATER", `{"app":"pay","name":"salaries","handler":"POST /run","schedule":{"cron":"0 45 2 * * ?"}}`,
	"EXPECTING", `{"app":"shop","name":"report","handler":"POST /x","call":{"expect":[200]}}`,
	"HEADERS", `"headers":{"X-Team":"mine","X-Key":"hunter2"},"hidden":["X-Key"]`,
	"SHOWN", `"headers":{"X-Team":"mine","X-Key":"***"},"hidden":["X-Key"]`,
	"AUDIT", `{"app":"shop","name":"audit","handler":"audit"}`,
	"HASH", core.HashScript("id"), "LONG", strings.Repeat("x", api.MaxJob), "PARAMS", strings.Repeat("x", core.MaxParams+1))

// TestStories compares each answer of each story with the golden file. No answer has a token of an app or a word that
// only developers know.
func TestStories(t *testing.T) {
	texts := golden.New(t)
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))) // in the bubble
				f := newHandler(t)
				f.h = f.withReports()
				f.shop()
				secrets := maps.Clone(tokens)
				for i, line := range strings.Split(strings.TrimSpace(story), "\n") {
					time.Sleep(time.Second)
					ask, same := strings.CutPrefix(line, "! ")
					who, language, rest := "", "", ask
					if strings.HasPrefix(ask, "@") {
						who, rest, _ = strings.Cut(ask[1:], " ")
						who, language, _ = strings.Cut(who, "~")
					}
					if secrets[who] == "" && who != "nobody" {
						secrets[who] = f.person(who, grants[who]...)
					}
					method, rest, _ := strings.Cut(rest, " ")
					path, body, _ := strings.Cut(rest, " ")
					if method == "FAIL" {
						id, err := core.ParseRunID(path)
						check.OK(t, err)
						end := finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "no"}
						check.OK(t, f.finish.End(t.Context(), []finish.Result{end})[0])
						continue
					}
					before := ""
					if same {
						before = f.state()
					}
					status, answer := f.inLanguage(language, secrets[who], method, path, parts.Replace(body))
					if same {
						check.Equal(t, cmp.Diff(before, f.state()), "", "%s changes something", ask)
					}
					for _, inside := range []string{"another-token", appToken, " ring", " lease", " claim", "json:", "runtime", "goroutine", "12345}",
						liar, otherAddress, "hunter2"} {
						if strings.Contains(answer, inside) {
							t.Errorf("%s: %q is in %s", ask, inside, answer)
						}
					}
					texts.Equal(t, fmt.Sprintf("%s %02d: %s", name, i+1, ask), fmt.Sprint(status, " ", answer))
				}
			})
		})
	}
}
