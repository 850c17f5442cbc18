package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tickring/tickring/internal/awsclient"
	"github.com/tickring/tickring/store"
)

//go:embed counter.yaml
var counterTemplate string

// cdkVersion is the version in docs/tutorial/deploy-to-aws.md.
const cdkVersion = "2.1148.1"

// deploy makes the stack that is proven; invoke and queue are executors that it may use, by ARN.
func (p *proof) deploy(ctx context.Context, invoke, queue string) error {
	cmd := exec.CommandContext(ctx, "npx", "--yes", "aws-cdk@"+cdkVersion, "deploy", p.o.stack, "--require-approval", "never",
		"--output", filepath.Join(p.dir, "cdk.out"), "--tags", tag+"="+p.o.stack,
		"-c", "tickring:name="+p.o.stack, "-c", "tickring:removalPolicy=destroy", "-c", "tickring:logRetentionDays=1",
		"-c", "tickring:logLevel=debug", "-c", "tickring:invoke="+invoke, "-c", "tickring:queues="+queue)
	cmd.Dir = filepath.Join(p.root, "infra")
	cmd.Env = append(os.Environ(), "AWS_REGION="+p.o.region, "CDK_DISABLE_CLI_TELEMETRY=true",
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1")
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out[max(0, len(out)-4000):])
	}
	if p.outputs, err = p.ask.Outputs(ctx, p.o.stack); err != nil {
		return err
	}
	return p.logReports(ctx)
}

// kill limits dispatch to one second and little CPU for some seconds: Lambda kills invocations that take longer, without a warning.
func (p *proof) kill(ctx context.Context) error {
	const dying = 15 * time.Second // shorter than the messages of dead invocations are hidden
	fn := p.outputs["DispatchFunction"]
	was, err := p.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
	if err != nil {
		return fmt.Errorf("read the configuration of dispatch: %w", err)
	}
	back := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return p.configure(ctx, &lambda.UpdateFunctionConfigurationInput{FunctionName: &fn, Timeout: was.Timeout, MemorySize: was.MemorySize})
	}
	dies := lambda.UpdateFunctionConfigurationInput{FunctionName: &fn, Timeout: aws.Int32(1), MemorySize: aws.Int32(128)}
	if err := p.configure(ctx, &dies); err != nil {
		return errors.Join(err, back())
	}
	store.Sleep(ctx, dying)
	return back()
}

// configure changes a function, and waits until the change is effective.
func (p *proof) configure(ctx context.Context, change *lambda.UpdateFunctionConfigurationInput) error {
	fn := *change.FunctionName
	ready := func() error {
		return again(ctx, time.Second, func() (bool, error) {
			c, err := p.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
			return err == nil && c.State == "Active" && c.LastUpdateStatus != "InProgress", err
		})
	}
	if err := ready(); err != nil {
		return fmt.Errorf("wait for %s: %w", fn, err)
	}
	if _, err := p.lambda.UpdateFunctionConfiguration(ctx, change); err != nil {
		return fmt.Errorf("configure %s: %w", fn, err)
	}
	return ready()
}

// bound limits the tables and the index to some units a second; -1 is no limit.
func (p *proof) bound(ctx context.Context, units int64) error {
	bound := &dbtypes.OnDemandThroughput{MaxReadRequestUnits: &units, MaxWriteRequestUnits: &units}
	for _, name := range p.tables() {
		in := &dynamodb.UpdateTableInput{TableName: &name, OnDemandThroughput: bound}
		if name == p.outputs["JobsTable"] {
			in.GlobalSecondaryIndexUpdates = []dbtypes.GlobalSecondaryIndexUpdate{{Update: &dbtypes.UpdateGlobalSecondaryIndexAction{
				IndexName: aws.String(dueIndex), OnDemandThroughput: bound,
			}}}
		}
		if _, err := p.db.UpdateTable(ctx, in); err != nil {
			return fmt.Errorf("bound the table %s: %w", name, err)
		}
	}
	for _, name := range p.tables() {
		if err := again(ctx, time.Second, func() (bool, error) {
			t, err := p.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
			return err == nil && t.Table.TableStatus == "ACTIVE", err
		}); err != nil {
			return fmt.Errorf("wait for the table %s: %w", name, err)
		}
	}
	return nil
}

func (p *proof) remove(ctx context.Context) error {
	return errors.Join(p.removeStack(ctx, p.o.stack), p.removeStack(ctx, p.counter()), p.removeParameters(ctx))
}

// removeParameters removes the tokens and keys, which are not part of the stack.
func (p *proof) removeParameters(ctx context.Context) error {
	path, deployed := strings.CutSuffix(p.outputs["TokenParameter"], "/admin-token")
	if !deployed {
		return nil
	}
	var found struct{ Parameters []struct{ Name string } }
	if err := p.ask.JSON(ctx, "ssm", "1.1", "AmazonSSM.GetParametersByPath", map[string]any{"Path": path}, &found); err != nil {
		return fmt.Errorf("list the parameters of %s: %w", path, err)
	}
	var names []string
	for _, x := range found.Parameters {
		names = append(names, x.Name)
	}
	if len(names) == 0 {
		return nil
	}
	var none struct{}
	if err := p.ask.JSON(ctx, "ssm", "1.1", "AmazonSSM.DeleteParameters", map[string]any{"Names": names}, &none); err != nil {
		return fmt.Errorf("remove the parameters of %s: %w", path, err)
	}
	return nil
}

// removeStack removes one, and waits until it is gone; one that is not there is.
func (p *proof) removeStack(ctx context.Context, name string) error {
	var none struct{}
	if err := p.ask.Query(ctx, "cloudformation", "2010-05-15", "DeleteStack", url.Values{"StackName": {name}}, &none); err != nil {
		return fmt.Errorf("remove the stack %s: %w", name, err)
	}
	return again(ctx, 5*time.Second, func() (bool, error) {
		s, err := p.stackStatus(ctx, name)
		switch {
		case awsclient.NotFound(err) || s == "DELETE_COMPLETE":
			return true, nil
		case s == "DELETE_FAILED":
			return false, fmt.Errorf("the stack %s was not removed: its events say why", name)
		}
		return false, err
	})
}

func (p *proof) stackStatus(ctx context.Context, name string) (string, error) {
	var out struct {
		Status string `xml:"DescribeStacksResult>Stacks>member>StackStatus"`
	}
	err := p.ask.Query(ctx, "cloudformation", "2010-05-15", "DescribeStacks", url.Values{"StackName": {name}}, &out)
	return out.Status, err
}

// count creates the stack of the counter.
func (p *proof) count(ctx context.Context) error {
	name := p.counter()
	var made struct{}
	if err := p.ask.Query(ctx, "cloudformation", "2010-05-15", "CreateStack", url.Values{
		"StackName": {name}, "TemplateBody": {counterTemplate}, "Capabilities.member.1": {"CAPABILITY_IAM"},
		"Parameters.member.1.ParameterKey": {"Results"}, "Parameters.member.1.ParameterValue": {p.outputs["ResultsQueueArn"]},
		"Tags.member.1.Key": {tag}, "Tags.member.1.Value": {p.o.stack},
	}, &made); err != nil {
		return fmt.Errorf("make the stack %s: %w", name, err)
	}
	if err := again(ctx, 3*time.Second, func() (bool, error) {
		s, err := p.stackStatus(ctx, name)
		if strings.Contains(s, "ROLLBACK") || strings.Contains(s, "FAILED") {
			return false, fmt.Errorf("the stack %s is %s: its events say why", name, s)
		}
		return s == "CREATE_COMPLETE", err
	}); err != nil {
		return err
	}
	out, err := p.ask.Outputs(ctx, name)
	if err != nil {
		return err
	}
	p.counts = out
	return nil
}

// again asks each so often until it is so, or something is wrong.
func again(ctx context.Context, each time.Duration, ask func() (bool, error)) error {
	for {
		if ok, err := ask(); err != nil || ok {
			return err
		}
		if !store.Sleep(ctx, each) {
			return ctx.Err()
		}
	}
}

// json decodes the output of a command line.
func (p *proof) json(ctx context.Context, out any, line string) error {
	b, err := p.server.Command(ctx, append(strings.Fields(line), "-o", "json")...).Output()
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		return fmt.Errorf("tickring %s: %w", line, err)
	}
	return nil
}

func (p *proof) cli(ctx context.Context, args ...string) (string, error) {
	out, err := p.server.Command(ctx, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("tickring %s: %w\n%s", strings.Join(args, " "), err, out[:min(len(out), 2000)])
	}
	return string(out), nil
}
