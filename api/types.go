package api

import "github.com/tickring/tickring/api/client"

// The types of the document are generated beside the client, which is public
// and needs nothing else of ours. Here they go by the same names.
type (
	App                = client.App
	AppList            = client.AppList
	AppResult          = client.AppResult
	AppLimits          = client.AppLimits
	AppSpec            = client.AppSpec
	ApplyRequest       = client.ApplyRequest
	ApplyResult        = client.ApplyResult
	Audit              = client.Audit
	AuditCount         = client.AuditCount
	AuditParams        = client.AuditParams
	Call               = client.Call
	Command            = client.Command
	Change             = client.Change
	ChangeList         = client.ChangeList
	Beside             = client.Beside
	ChildRun           = client.ChildRun
	Coming             = client.Coming
	DeleteJobParams    = client.DeleteJobParams
	Error              = client.Error
	ErrorReply         = client.ErrorReply
	Executor           = client.Executor
	ExecutorList       = client.ExecutorList
	RefusedExecutor    = client.RefusedExecutor
	GetLogParams       = client.GetLogParams
	IfRev              = client.IfRev
	Job                = client.Job
	JobAudit           = client.JobAudit
	JobBase            = client.JobBase
	JobPage            = client.JobPage
	JobResult          = client.JobResult
	JobSpec            = client.JobSpec
	Keep               = client.Keep
	KillAnswer         = client.KillAnswer
	KillJobParams      = client.KillJobParams
	KillRunParams      = client.KillRunParams
	LateResult         = client.LateResult
	Broadcast          = client.Broadcast
	Overlap            = client.Overlap
	Shard              = client.Shard
	ShardRun           = client.ShardRun
	Permit             = client.Permit
	RanWith            = client.RanWith
	Limit              = client.Limit
	ListChangesParams  = client.ListChangesParams
	ListJobsParams     = client.ListJobsParams
	ListRunsParams     = client.ListRunsParams
	ListUpcomingParams = client.ListUpcomingParams
	ListWaitingParams  = client.ListWaitingParams
	Log                = client.Log
	Parent             = client.Parent
	PathApp            = client.PathApp
	PathName           = client.PathName
	PathRun            = client.PathRun
	Pause              = client.Pause
	PauseRequest       = client.PauseRequest
	Preview            = client.Preview
	PreviewRequest     = client.PreviewRequest
	Proofs             = client.Proofs
	ProveParams        = client.ProveParams
	ReplanRequest      = client.ReplanRequest
	ReplanResult       = client.ReplanResult
	ResumeRequest      = client.ResumeRequest
	Retry              = client.Retry
	Rule               = client.Rule
	Run                = client.Run
	RunPage            = client.RunPage
	Schedule           = client.Schedule
	Skip               = client.Skip
	StateResult        = client.StateResult
	Status             = client.Status
	StopResult         = client.StopResult
	TriggerChange      = client.TriggerChange
	TriggerRequest     = client.TriggerRequest
	TriggerResult      = client.TriggerResult
	Try                = client.Try
	UnreadableApp      = client.UnreadableApp
	UnreadableJob      = client.UnreadableJob
	Upcoming           = client.Upcoming
)
