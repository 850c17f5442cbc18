package infra

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbudgets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/internal/lambdaboot"
)

// own is one of the metrics that the functions write.
func (s *Scheduler) own(name, statistic string) awscloudwatch.IMetric {
	return metric(lambdaboot.MetricNamespace, name, statistic, map[string]*string{lambdaboot.MetricDimension: s.name()})
}

func metric(namespace, name, statistic string, dimensions map[string]*string) awscloudwatch.IMetric {
	p := &awscloudwatch.MetricProps{Namespace: &namespace, MetricName: &name, Statistic: &statistic,
		Period: awscdk.Duration_Minutes(jsii.Number(5))}
	if len(dimensions) > 0 {
		p.DimensionsMap = &dimensions
	}
	return awscloudwatch.NewMetric(p)
}

// name distinguishes this scheduler from others in the account, in its metrics and the names of its parameters.
func (s *Scheduler) name() *string {
	return awscdk.Names_UniqueResourceName(s.Construct, &awscdk.UniqueResourceNameOptions{Separator: jsii.String("-")})
}

// of is a metric of some functions.
func (s *Scheduler) of(name string, functions ...string) map[string]awscloudwatch.IMetric {
	list := map[string]awscloudwatch.IMetric{}
	for _, f := range functions {
		if fn := s.Functions[f]; fn != nil {
			list[f] = metric("AWS/Lambda", name, "Sum", map[string]*string{"FunctionName": fn.FunctionName()})
		}
	}
	return list
}

func queueMetric(q awssqs.IQueue, name, statistic string) awscloudwatch.IMetric {
	return metric("AWS/SQS", name, statistic, map[string]*string{"QueueName": q.QueueName()})
}

// alarms creates the alarms for operators; docs/reference/aws-alarms.md has the meaning and the action of each.
func (s *Scheduler) alarms(p *Props) {
	scope := constructs.NewConstruct(s.Construct, jsii.String("Alarm"))
	alarm := func(id, about string, m awscloudwatch.IMetric, above float64, periods float64, missing awscloudwatch.TreatMissingData,
		compare awscloudwatch.ComparisonOperator) {
		a := awscloudwatch.NewAlarm(scope, &id, &awscloudwatch.AlarmProps{
			AlarmDescription: jsii.String("tickring: " + about), Metric: m, Threshold: &above, ComparisonOperator: compare,
			EvaluationPeriods: &periods, DatapointsToAlarm: &periods, TreatMissingData: missing,
		})
		if p.AlarmTopic != nil {
			action := awscloudwatchactions.NewSnsAction(p.AlarmTopic)
			a.AddAlarmAction(action)
			a.AddOkAction(action)
		}
	}
	over := func(id, about string, m awscloudwatch.IMetric, above, periods float64) {
		alarm(id, about, m, above, periods, awscloudwatch.TreatMissingData_NOT_BREACHING, awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD)
	}
	// A run waits on the delay queue for 15 minutes at most.
	over("OldestMessage", "runs wait too long: dispatch cannot keep up, or fails",
		queueMetric(s.Fires, "ApproximateAgeOfOldestMessage", "Maximum"), 20*60, 2)
	// Several kinds of events share a metric, because each metric costs as much as the canary.
	over("Problems", "messages could not be handled, notifications were dropped, or missing runs were sent again: run tickring doctor",
		s.own(lambdaboot.Problems, "Sum"), 0, 1)
	over("Faults", "functions fail, DynamoDB throttles requests, or jobs are planned late: run tickring doctor",
		s.own(lambdaboot.Faults, "Sum"), lambdaboot.FaultsMost, 2)
	over("PostRunQueueAge", "logs to archive and notifications wait for hours: the function postrun cannot keep up, or fails",
		queueMetric(s.PostRun, "ApproximateAgeOfOldestMessage", "Maximum"), 2*3600, 2)
	// slow, callback and tick use the concurrency of the account, also if dispatch has a reserve.
	over("AccountConcurrency", fmt.Sprintf("more than 80%% of the %v functions that the account can run at the same time are running",
		p.account()), metric("AWS/Lambda", "ConcurrentExecutions", "Maximum", nil), p.account()*0.8, 1)
	over("Throttles", "dispatch is throttled: the concurrency of the account or its own is used up",
		s.of("Throttles", "dispatch")["dispatch"], 0, 1)
	refused := s.of("Throttles", "api")["api"]
	if s.api != nil { // one metric covers failures and missing capacity of all functions behind the API
		http := func(name string) awscloudwatch.IMetric {
			return metric("AWS/ApiGateway", name, "Sum", map[string]*string{"ApiId": s.api.ApiId()})
		}
		refused = http("5xx")
		rate := p.throttle().Rate
		over("ApiNearThrottle", fmt.Sprintf("requests reached 80%% of %v a second, the throttle of a path of the HTTP API", rate),
			http("Count"), 0.8*rate*5*60, 2)
	}
	over("ApiErrors", "API requests fail or are throttled: executors send results again, and heartbeats are missed", refused,
		2, 2)
	minutes := func(perMinute *float64, otherwise float64) float64 { // the period is five minutes
		if perMinute != nil {
			otherwise = *perMinute
		}
		return 5 * otherwise
	}
	over("Invocations", "functions of the account are invoked unusually often: Lambda does not stop loops of tickring's functions",
		metric("AWS/Lambda", "Invocations", "Sum", nil), minutes(p.InvocationsAlarm, 60_000), 2)
	over("WriteUnits", "runs are written unusually often", metric("AWS/DynamoDB", "ConsumedWriteCapacityUnits", "Sum",
		map[string]*string{"TableName": s.Runs.TableName()}), minutes(p.WriteUnitsAlarm, 120_000), 2)
	if !p.NoCanary {
		alarm("Canary", "the canary job, due every three minutes, did not arrive for ten minutes: no run is sent",
			s.of("Invocations", "canary")["canary"], 1, 2, awscloudwatch.TreatMissingData_BREACHING,
			awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD)
	}
	// tick is invoked each minute. The metric of its errors is missing if it is not invoked, and counts a tick that cannot start.
	alarm("NoTick", "tick did not run, or failed each time, for ten minutes: no run is planned", s.of("Errors", "tick")["tick"], 4, 2,
		awscloudwatch.TreatMissingData_BREACHING, awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD)
}

// budget sends an email when the costs of the resources with the tag of the stack approach the limit.
func (s *Scheduler) budget(b *Budget, tag *string) {
	notify := func(percent float64) *awsbudgets.CfnBudget_NotificationWithSubscribersProperty {
		return &awsbudgets.CfnBudget_NotificationWithSubscribersProperty{
			Notification: &awsbudgets.CfnBudget_NotificationProperty{ComparisonOperator: jsii.String("GREATER_THAN"),
				NotificationType: jsii.String("ACTUAL"), Threshold: &percent},
			Subscribers: []any{&awsbudgets.CfnBudget_SubscriberProperty{Address: &b.Email, SubscriptionType: jsii.String("EMAIL")}},
		}
	}
	awsbudgets.NewCfnBudget(s.Construct, jsii.String("Budget"), &awsbudgets.CfnBudgetProps{
		Budget: &awsbudgets.CfnBudget_BudgetDataProperty{BudgetType: jsii.String("COST"), TimeUnit: jsii.String("MONTHLY"),
			BudgetLimit: &awsbudgets.CfnBudget_SpendProperty{Amount: &b.Dollars, Unit: jsii.String("USD")},
			CostFilters: map[string]any{"TagKeyValue": []string{"user:tickring$" + *tag}}},
		NotificationsWithSubscribers: []any{notify(80), notify(100)},
	})
}

// dashboard answers three questions: is it on time, is it keeping up, what does
// it cost.
func (s *Scheduler) dashboard() {
	graph := func(title string, lists ...map[string]awscloudwatch.IMetric) awscloudwatch.IWidget {
		var left []awscloudwatch.IMetric
		for _, l := range lists {
			for _, name := range slices.Sorted(maps.Keys(l)) {
				left = append(left, l[name])
			}
		}
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{Title: &title, Left: &left, Width: jsii.Number(8),
			Height: jsii.Number(6)})
	}
	heading := func(text string) awscloudwatch.IWidget {
		return awscloudwatch.NewTextWidget(&awscloudwatch.TextWidgetProps{Markdown: &text, Width: jsii.Number(24), Height: jsii.Number(1)})
	}
	one := func(m awscloudwatch.IMetric) map[string]awscloudwatch.IMetric {
		return map[string]awscloudwatch.IMetric{"": m}
	}
	queues := func(name, statistic string) map[string]awscloudwatch.IMetric {
		list := map[string]awscloudwatch.IMetric{}
		for q, queue := range map[string]awssqs.IQueue{"fires": s.Fires, "slow": s.Slow, "checks": s.Checks, "postrun": s.PostRun,
			"results": s.Results} {
			list[q] = queueMetric(queue, name, statistic)
		}
		return list
	}
	units := func(name string) map[string]awscloudwatch.IMetric {
		list := map[string]awscloudwatch.IMetric{}
		for t, table := range map[string]awsdynamodb.ITableV2{"jobs": s.Jobs, "runs": s.Runs, "state": s.State} {
			list[t] = metric("AWS/DynamoDB", name, "Sum", map[string]*string{"TableName": table.TableName()})
		}
		return list
	}
	all := slices.Sorted(maps.Keys(s.Functions))
	awscloudwatch.NewDashboard(s.Construct, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{Widgets: &[]*[]awscloudwatch.IWidget{
		{heading("## Is it on time")},
		{graph("Latest send after its time, s (nothing: within a second)", one(s.own(lambdaboot.Lateness, "Maximum"))),
			graph("Fires sent more than a second late", one(s.own(lambdaboot.LateFires, "Sum"))),
			graph("Planned after its time, s (nothing: within two minutes)", one(s.own(lambdaboot.PlanningLag, "Maximum")))},
		{heading("## Is it keeping up")},
		{graph("Age of the oldest message, s", queues("ApproximateAgeOfOldestMessage", "Maximum")),
			graph("Dead letters, fires that failed with all their retries, logs that could not be stored, and notifications dropped",
				one(queueMetric(s.Dead, "NumberOfMessagesReceived", "Sum")),
				one(s.own(lambdaboot.Failed, "Sum")), one(s.own(lambdaboot.LogsLost, "Sum")), one(s.own(lambdaboot.NotificationsDropped, "Sum"))),
			graph("Errors and throttles", s.of("Errors", all...), s.of("Throttles", all...))},
		{heading("## What does it cost")},
		{graph("Write units", units("ConsumedWriteCapacityUnits")), graph("Read units", units("ConsumedReadCapacityUnits")),
			graph("Milliseconds of functions", s.of("Duration", all...))},
		{graph("Invocations", s.of("Invocations", all...)), graph("Messages sent", queues("NumberOfMessagesSent", "Sum")),
			graph("Empty receives", queues("NumberOfEmptyReceives", "Sum"))},
	}})
}
