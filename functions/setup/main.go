// Command setup is the function that CloudFormation calls when a deployment is
// made, changed or removed. It makes the tokens, which CloudFormation itself
// could not keep secret, and takes them away again; a token that is there is
// left as it is. And it makes the job by which a deployment watches itself.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tickring/tickring/internal/boot"
)

// parameters is what setup calls of SSM.
type parameters interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
	PutParameter(context.Context, *ssm.PutParameterInput, ...func(*ssm.Options)) (*ssm.PutParameterOutput, error)
	DeleteParameter(context.Context, *ssm.DeleteParameterInput, ...func(*ssm.Options)) (*ssm.DeleteParameterOutput, error)
}

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	sdk, err := config.LoadDefaultConfig(context.Background())
	boot.Must(log, err)
	awslambda.Start(cfn.LambdaWrap(wire(ssm.NewFromConfig(sdk), lambda.NewFromConfig(sdk), log)))
}

// kinds of what it sets up.
const (
	kindSecrets = "Custom::TickringSecrets"
	kindCanary  = "Custom::TickringCanary"
)

// answerBy is how long before the end of an invocation its work ends: whoever
// does not answer CloudFormation keeps it waiting for an hour.
const answerBy = 5 * time.Second

// wire makes the handler; what it returns as an error is CloudFormation's reason
// for failing the deployment.
func wire(params parameters, functions functions, log *slog.Logger) cfn.CustomResourceFunction {
	return func(ctx context.Context, e cfn.Event) (string, map[string]any, error) {
		if end, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, end.Add(-answerBy))
			defer cancel()
		}
		var id string
		var err error
		switch e.ResourceType {
		case kindSecrets:
			id, err = setSecrets(ctx, params, &e)
		case kindCanary:
			id, err = setCanary(ctx, params, functions, &e)
		default:
			err = fmt.Errorf("resource type %q: %s and %s are known", e.ResourceType, kindSecrets, kindCanary)
		}
		if err != nil {
			log.Error("not set up", "request", e.RequestType, "resource", e.LogicalResourceID, "err", err)
		}
		// Without an identifier CloudFormation would take the stream of the log.
		return cmp.Or(id, e.PhysicalResourceID, e.LogicalResourceID), nil, err
	}
}

// setSecrets makes and removes secrets. They have one identifier for ever: with
// another CloudFormation would delete the old ones.
func setSecrets(ctx context.Context, params parameters, e *cfn.Event) (id string, err error) {
	s, err := readSecrets(e.ResourceProperties)
	if err != nil {
		return "", err
	}
	for _, name := range s.names {
		if e.RequestType == cfn.RequestDelete {
			if slices.Contains(s.kept, name) {
				continue
			}
			err = remove(ctx, params, name)
		} else {
			err = put(ctx, params, name, s.key)
		}
		if err != nil {
			return s.names[0], err
		}
	}
	return s.names[0], nil
}

type secrets struct {
	names []string
	kept  []string // stay when the deployment is removed
	key   string   // that encrypts them; empty: the account's own
}

// maxSecrets bounds what one deployment may ask for.
const maxSecrets = 10

func readSecrets(properties map[string]any) (secrets, error) {
	var s secrets
	list, ok := properties["Secrets"].([]any)
	if !ok || len(list) == 0 || len(list) > maxSecrets {
		return s, fmt.Errorf("Secrets is no list of 1 to %d names of parameters", maxSecrets)
	}
	for _, v := range list {
		name, ok := v.(string)
		if !ok || !strings.HasPrefix(name, "/") || len(name) > 1011 {
			return s, fmt.Errorf("Secrets has %v, which is no name of a parameter", v)
		}
		s.names = append(s.names, name)
	}
	kept, _ := properties["Kept"].([]any)
	for _, v := range kept {
		name, _ := v.(string)
		s.kept = append(s.kept, name)
	}
	s.key, _ = properties["KeyId"].(string)
	return s, nil
}

// put makes a secret of 160 bits or more, and leaves one that is there.
func put(ctx context.Context, params parameters, name, key string) error {
	in := &ssm.PutParameterInput{
		Name: &name, Type: types.ParameterTypeSecureString, Value: aws.String(rand.Text() + rand.Text()),
		Description: aws.String("A token or a key of tickring, made when it was deployed"),
	}
	if key != "" {
		in.KeyId = &key
	}
	_, err := params.PutParameter(ctx, in)
	var there *types.ParameterAlreadyExists
	if err != nil && !errors.As(err, &there) {
		return fmt.Errorf("make the parameter %s: %w", name, err)
	}
	return nil
}

func remove(ctx context.Context, params parameters, name string) error {
	_, err := params.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &name})
	var gone *types.ParameterNotFound
	if err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("delete the parameter %s: %w", name, err)
	}
	return nil
}
