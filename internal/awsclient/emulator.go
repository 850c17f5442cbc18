package awsclient

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Lacks reports which features an AWS emulator lacks. The first result is true if HTTP APIs (API Gateway v2) are
// missing. The second result is true if the emulator checks no permissions, because it accepts unknown credentials.
func (c *Client) Lacks(ctx context.Context) (httpAPIs, permissions bool, err error) {
	err = c.Get(ctx, "apigateway", "/v2/apis", &struct{}{})
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusNotImplemented {
		httpAPIs, err = true, nil
	}
	if err != nil {
		return httpAPIs, false, err
	}
	unknown := *c
	unknown.cfg.Credentials = credentials.NewStaticCredentialsProvider("AKIATICKRINGUNKNOWN0", "unknown", "")
	err = unknown.JSON(ctx, "dynamodb", "1.0", "DynamoDB_20120810.ListTables", struct{}{}, &struct{}{})
	if _, refused := errors.AsType[*Error](err); refused {
		return httpAPIs, false, nil
	}
	return httpAPIs, err == nil, err
}
