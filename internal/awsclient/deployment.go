package awsclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrNoStack is the error of Outputs if the stack does not exist.
var ErrNoStack = errors.New("does not exist")

// Outputs returns the outputs of a CloudFormation stack, by output key.
func (c *Client) Outputs(ctx context.Context, name string) (map[string]string, error) {
	var out struct {
		Stacks []struct {
			Status  string `xml:"StackStatus"`
			Outputs []struct {
				Key   string `xml:"OutputKey"`
				Value string `xml:"OutputValue"`
			} `xml:"Outputs>member"`
		} `xml:"DescribeStacksResult>Stacks>member"`
	}
	err := c.Query(ctx, "cloudformation", "2010-05-15", "DescribeStacks", url.Values{"StackName": {name}}, &out)
	switch {
	case NotFound(err):
		return nil, fmt.Errorf("the stack %s in %s %w: set --region for another Region, --profile for another account", name, c.Region,
			ErrNoStack)
	case err != nil:
		return nil, fmt.Errorf("read the stack %s: %w", name, err)
	case len(out.Stacks) != 1:
		return nil, fmt.Errorf("read the stack %s: AWS returned %d stacks instead of one", name, len(out.Stacks))
	}
	found := map[string]string{}
	for _, o := range out.Stacks[0].Outputs {
		found[o.Key] = o.Value
	}
	return found, nil
}

// Secret returns the decrypted value of an SSM parameter.
func (c *Client) Secret(ctx context.Context, name string) (string, error) {
	var out struct{ Parameter struct{ Value string } }
	err := c.JSON(ctx, "ssm", "1.1", "AmazonSSM.GetParameter", map[string]any{"Name": name, "WithDecryption": true}, &out)
	switch {
	case Denied(err):
		return "", fmt.Errorf("these AWS credentials cannot read the token in the parameter %s: grant ssm:GetParameter, and "+
			"kms:Decrypt for the key of the parameter: %w", name, err)
	case err != nil:
		return "", fmt.Errorf("read the parameter %s: %w", name, err)
	}
	if v := strings.TrimSpace(out.Parameter.Value); v != "" {
		return v, nil
	}
	return "", errors.New("the parameter " + name + " is empty")
}
