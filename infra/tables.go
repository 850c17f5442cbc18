package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/core/ring"
)

// due is the index of the jobs that are to be planned, by partition and time.
const due = "due"

// fixed pins the logical ID of a resource with data: moving code must never replace it.
func fixed(id string, c constructs.IConstruct, suffix string) {
	c.Node().DefaultChild().(awscdk.CfnResource).OverrideLogicalId(jsii.String(id + suffix))
}

func (s *Scheduler) tables(id string, p *Props) {
	if p.Tables != nil {
		s.namedTables(p.Tables)
		return
	}
	policy := p.RemovalPolicy
	if policy == "" {
		policy = awscdk.RemovalPolicy_RETAIN
	}
	protected := p.DeletionProtection
	if protected == nil {
		protected = jsii.Bool(policy != awscdk.RemovalPolicy_DESTROY)
	}
	encryption := awsdynamodb.TableEncryptionV2_DynamoOwnedKey()
	if p.EncryptionKey != nil {
		encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.EncryptionKey, nil)
	}
	var warm *awsdynamodb.WarmThroughput
	if w := p.WarmThroughput; w != nil {
		warm = &awsdynamodb.WarmThroughput{ReadUnitsPerSecond: &w.Read, WriteUnitsPerSecond: &w.Write}
	}
	var replicas []*awsdynamodb.ReplicaTableProps
	for _, r := range p.Replicas {
		replicas = append(replicas, &awsdynamodb.ReplicaTableProps{Region: &r, DeletionProtection: protected})
	}
	table := func(name, hash, sort string, kind awsdynamodb.AttributeType, recover bool, warm *awsdynamodb.WarmThroughput,
		index ...*awsdynamodb.GlobalSecondaryIndexPropsV2) awsdynamodb.TableV2 {
		t := awsdynamodb.NewTableV2(s.Construct, &name, &awsdynamodb.TablePropsV2{
			PartitionKey:                     &awsdynamodb.Attribute{Name: &hash, Type: kind},
			SortKey:                          &awsdynamodb.Attribute{Name: &sort, Type: kind},
			Billing:                          billing(p),
			Encryption:                       encryption,
			WarmThroughput:                   warm,
			PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: &recover},
			TimeToLiveAttribute:              jsii.String("expires"),
			DeletionProtection:               protected,
			RemovalPolicy:                    policy,
			GlobalSecondaryIndexes:           &index,
			Replicas:                         &replicas,
		})
		fixed(id, t, name)
		return t
	}
	s.Jobs = table("Jobs", "id", "part", awsdynamodb.AttributeType_STRING, true, warm, &awsdynamodb.GlobalSecondaryIndexPropsV2{
		IndexName:      jsii.String(due),
		PartitionKey:   &awsdynamodb.Attribute{Name: jsii.String("partition"), Type: awsdynamodb.AttributeType_NUMBER},
		SortKey:        &awsdynamodb.Attribute{Name: jsii.String("planAt"), Type: awsdynamodb.AttributeType_STRING},
		ProjectionType: awsdynamodb.ProjectionType_ALL,
		WarmThroughput: warm,
	})
	s.Runs = table("Runs", "job", "run", awsdynamodb.AttributeType_NUMBER, p.RecoverRuns, warm)
	s.State = table("State", "of", "key", awsdynamodb.AttributeType_STRING, true, nil)
}

// namedTables are there already, and are not of the stack.
func (s *Scheduler) namedTables(t *Tables) {
	named := func(id, name string) awsdynamodb.ITableV2 {
		return awsdynamodb.TableV2_FromTableName(s.Construct, &id, &name)
	}
	s.Jobs, s.Runs, s.State = named("Jobs", t.Jobs), named("Runs", t.Runs), named("State", t.State)
}

// usedPercent is the target utilization of provisioned tables. A table keeps unused capacity for five minutes, so a burst
// of plans finds more capacity than it uses.
const usedPercent = 70

func billing(p *Props) awsdynamodb.Billing {
	c := p.Provisioned
	if c == nil {
		return awsdynamodb.Billing_OnDemand(nil)
	}
	capacity := func(min, max float64) awsdynamodb.Capacity {
		return awsdynamodb.Capacity_Autoscaled(&awsdynamodb.AutoscaledCapacityOptions{MinCapacity: &min, MaxCapacity: &max,
			TargetUtilizationPercent: jsii.Number(usedPercent)})
	}
	return awsdynamodb.Billing_Provisioned(&awsdynamodb.ThroughputProps{ReadCapacity: capacity(c.MinRead, c.MaxRead),
		WriteCapacity: capacity(c.MinWrite, c.MaxWrite)})
}

func (s *Scheduler) queues(id string, p *Props) {
	queue := func(name string, visibility float64, dead *awssqs.DeadLetterQueue) awssqs.Queue {
		props := &awssqs.QueueProps{
			Encryption:        awssqs.QueueEncryption_SQS_MANAGED,
			EnforceSSL:        jsii.Bool(true),
			RetentionPeriod:   awscdk.Duration_Days(jsii.Number(14)),
			VisibilityTimeout: awscdk.Duration_Seconds(&visibility),
			DeadLetterQueue:   dead,
		}
		if p.EncryptionKey != nil {
			props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, p.EncryptionKey
		}
		q := awssqs.NewQueue(s.Construct, jsii.String(name+"Queue"), props)
		fixed(id, q, name)
		return q
	}
	s.Dead = queue("Dead", visibility, nil)
	dead := &awssqs.DeadLetterQueue{Queue: s.Dead, MaxReceiveCount: jsii.Number(ring.MaxReceives)}
	s.Fires = queue("Fires", visibility, dead)
	s.Slow = queue("Slow", visibility, dead)
	s.Checks = queue("Checks", visibility, dead)
	s.PostRun = queue("PostRun", postRunTimeout+postRunTimeout/2, dead)
	s.Results = queue("Results", 2*doorTimeout, dead) // its function runs longer, and results are never late
}
