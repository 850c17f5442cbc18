package boot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// parameters is what is called of SSM.
type parameters interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// secretsWithin bounds how long a start waits for its secrets.
const secretsWithin = 5 * time.Second

// readSecrets reads what the configuration names.
func (c *Config) readSecrets(ctx context.Context, params parameters) error {
	ctx, cancel := context.WithTimeout(ctx, secretsWithin)
	defer cancel()
	for _, p := range []struct {
		name string
		into *string
	}{{c.Params.AdminToken, &c.AdminToken}, {c.Params.ReportKey, &c.reportKey}} {
		if p.name == "" {
			continue
		}
		out, err := params.GetParameter(ctx, &ssm.GetParameterInput{Name: &p.name, WithDecryption: aws.Bool(true)})
		var missing *types.ParameterNotFound
		switch {
		case errors.As(err, &missing):
			return fmt.Errorf("the parameter %s does not exist: the deployment makes it", p.name)
		case err != nil:
			return fmt.Errorf("read the parameter %s: %w", p.name, err)
		case out.Parameter == nil || !isToken(aws.ToString(out.Parameter.Value)):
			return fmt.Errorf("the parameter %s: %s", p.name, whatTokensAre)
		}
		*p.into = *out.Parameter.Value
	}
	return nil
}
