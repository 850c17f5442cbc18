package boot

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// parameters is what is called of SSM.
type parameters interface {
	GetParameters(context.Context, *ssm.GetParametersInput, ...func(*ssm.Options)) (*ssm.GetParametersOutput, error)
}

// secretsWithin bounds how long a start waits for its secrets.
const secretsWithin = 5 * time.Second

// readSecrets reads what the configuration names, all in one request.
func (c *Config) readSecrets(ctx context.Context, params parameters) error {
	ctx, cancel := context.WithTimeout(ctx, secretsWithin)
	defer cancel()
	into := map[string]*string{}
	var names []string
	for _, p := range []struct {
		name string
		into *string
	}{{c.Params.AdminToken, &c.AdminToken}, {c.Params.ReportKey, &c.reportKey}} {
		if p.name != "" {
			names, into[p.name] = append(names, p.name), p.into
		}
	}
	out, err := params.GetParameters(ctx, &ssm.GetParametersInput{Names: names, WithDecryption: aws.Bool(true)})
	if err != nil {
		return fmt.Errorf("read the parameters %s: %w", strings.Join(names, ", "), err)
	}
	for _, p := range out.Parameters {
		if to := into[aws.ToString(p.Name)]; to != nil {
			*to = aws.ToString(p.Value)
		}
	}
	for _, name := range names {
		switch v := *into[name]; {
		case v == "":
			return fmt.Errorf("the parameter %s does not exist: the deployment makes it", name)
		case !isToken(v):
			return fmt.Errorf("the parameter %s: %s", name, whatTokensAre)
		}
	}
	return nil
}
