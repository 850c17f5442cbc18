package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// CreateLocal creates tables and queues whose names begin with the prefix. Existing tables and queues are kept.
// Deployments create their tables and queues with package infra.
func CreateLocal(ctx context.Context, db *dynamodb.Client, queues *sqs.Client, prefix string) (dynamo.Names, error) {
	n := dynamo.Names{Jobs: prefix + "-jobs", Runs: prefix + "-runs", State: prefix + "-state"}
	attr := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	key := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
	}
	tables := []dynamodb.CreateTableInput{
		{TableName: &n.Jobs, KeySchema: key("id", "part"),
			AttributeDefinitions: []types.AttributeDefinition{attr("id", "S"), attr("part", "S"), attr("partition", "N"), attr("planAt", "S")},
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("due"), KeySchema: key("partition", "planAt"),
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}}}},
		{TableName: &n.Runs, KeySchema: key("job", "run"), AttributeDefinitions: []types.AttributeDefinition{attr("job", "N"), attr("run", "N")}},
		{TableName: &n.State, KeySchema: key("of", "key"), AttributeDefinitions: []types.AttributeDefinition{attr("of", "S"), attr("key", "S")}},
	}
	for i := range tables {
		tables[i].BillingMode = types.BillingModePayPerRequest
		_, err := db.CreateTable(ctx, &tables[i])
		var there *types.ResourceInUseException
		if err != nil && !errors.As(err, &there) {
			return n, fmt.Errorf("create table %s: %w", *tables[i].TableName, err)
		}
	}
	for _, q := range []struct {
		name string
		url  *string
	}{{"fires", &n.Fires}, {"slow", &n.Slow}, {"checks", &n.Checks}, {"postrun", &n.PostRun}, {"dead", &n.Dead}} {
		out, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(prefix + "-" + q.name)})
		if err != nil {
			return n, fmt.Errorf("create queue %s-%s: %w", prefix, q.name, err)
		}
		*q.url = aws.ToString(out.QueueUrl)
	}
	return n, nil
}

// Open returns an engine that uses the tables and queues.
func Open(db dynamo.DynamoDB, queues dynamo.SQS, o dynamo.Options) (*store.Store, error) {
	s, err := dynamo.New(db, queues, o)
	if err != nil {
		return nil, err
	}
	fakeaws.Receive(s, queues, o)
	return s.Store, nil
}
