// Package awsclient sends the AWS requests of the CLI. Each request is signed and uses one of three AWS protocols. The
// caller passes a struct with the fields of the answer to read.
//
// The AWS SDK's clients for the seven services would make the CLI 8 MB larger, and its first build 42 s of processor
// time longer. The package therefore takes only credentials, profiles and signatures from the SDK. It has no code for
// single services, and no function that changes data.
package awsclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Options has the settings of New. Empty fields get the defaults of the AWS SDK: environment variables, the shared
// configuration file, and the role of the machine.
type Options struct {
	Region  string
	Profile string
	// Getenv returns the value of an environment variable AWS_ENDPOINT_URL_<SERVICE>. Local emulators of one
	// service use this variable.
	Getenv func(name string) string
	// HTTP sends the requests. If nil, New uses a client with a timeout of 10 s.
	HTTP *http.Client
}

// Client sends requests to the AWS services of one Region.
type Client struct {
	Region string
	o      Options
	cfg    aws.Config
	signer *v4.Signer
}

// New finds the Region and the credentials, and returns a Client. New sends a request to AWS only if a profile needs
// the request to get credentials.
func New(ctx context.Context, o Options) (*Client, error) {
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("read the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("no AWS Region: set --region, AWS_REGION or the region of the profile")
	}
	if strings.ContainsAny(cfg.Region, "/:@?# \t") {
		return nil, fmt.Errorf("%q is not an AWS Region: write a Region as eu-central-1", cfg.Region)
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("no AWS credentials: sign in, or set AWS_PROFILE (%w)", err)
	}
	return &Client{Region: cfg.Region, o: o, cfg: cfg, signer: v4.NewSigner()}, nil
}

// Error is an error that an AWS service returned.
type Error struct {
	Service string
	Status  int
	Code    string // the AWS error code, such as ResourceNotFoundException
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s answered %s: %s", e.Service, cmp.Or(e.Code, fmt.Sprint(e.Status)), e.Message)
}

// NotFound reports whether the requested AWS object does not exist.
func (e *Error) NotFound() bool { return NotFound(e) }

// Denied reports whether the caller lacks the permission for the request.
func (e *Error) Denied() bool { return Denied(e) }

// Reason returns the error message of AWS.
func (e *Error) Reason() string { return e.Message }

// NotFound reports whether err means that the requested AWS object does not exist.
func NotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (strings.Contains(e.Code, "NotFound") || strings.Contains(e.Code, "NonExistent") ||
		strings.Contains(e.Code, "DoesNotExist") ||
		e.Code == "ValidationError" && strings.Contains(e.Message, "does not exist"))
}

// Denied reports whether err means that the caller lacks the permission for the request.
func Denied(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (strings.Contains(e.Code, "AccessDenied") || strings.Contains(e.Code, "NotAuthorized") || e.Code == "UnauthorizedOperation")
}

// JSON sends a request of the awsJson protocol. target is the operation, such as "DynamoDB_20120810.DescribeTable".
// version is the protocol version, "1.0" or "1.1".
func (c *Client) JSON(ctx context.Context, service, version, target string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("request to %s: %w", service, err)
	}
	return c.ask(ctx, service, http.MethodPost, "/", body, http.Header{"Content-Type": {"application/x-amz-json-" + version},
		"X-Amz-Target": {target}}, func(b []byte) error { return json.Unmarshal(b, out) })
}

// Get sends a request of the restJson protocol. path must be URL-escaped, and may have a query.
func (c *Client) Get(ctx context.Context, service, path string, out any) error {
	return c.ask(ctx, service, http.MethodGet, path, nil, http.Header{}, func(b []byte) error { return json.Unmarshal(b, out) })
}

// Query sends a request of the awsQuery protocol, and reads the XML answer.
func (c *Client) Query(ctx context.Context, service, version, action string, params url.Values, out any) error {
	params.Set("Action", action)
	params.Set("Version", version)
	return c.ask(ctx, service, http.MethodPost, "/", []byte(params.Encode()),
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, func(b []byte) error { return xml.Unmarshal(b, out) })
}

// endpoint is where a service is.
func (c *Client) endpoint(service string) string {
	name := map[string]string{"monitoring": "CLOUDWATCH"}[service]
	u := cmp.Or(c.o.Getenv("AWS_ENDPOINT_URL_"+cmp.Or(name, strings.ToUpper(service))), aws.ToString(c.cfg.BaseEndpoint))
	if u != "" {
		return strings.TrimSuffix(u, "/")
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(c.Region, "cn-") {
		domain += ".cn"
	}
	return "https://" + service + "." + c.Region + "." + domain
}

const (
	tries     = 3
	maxAnswer = 4 << 20
)

// passing lists the errors after which a request is retried.
var passing = []string{"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"}

func (c *Client) ask(ctx context.Context, service, method, path string, body []byte, header http.Header, read func([]byte) error) error {
	for try := 1; ; try++ {
		err := c.once(ctx, service, method, path, body, header, read)
		e, refused := errors.AsType[*Error](err)
		final := refused && (e.Status < 500 || e.Status == http.StatusNotImplemented) && !slices.Contains(passing, e.Code)
		if err == nil || try == tries || final || ctx.Err() != nil {
			return err
		}
		t := time.NewTimer(time.Duration(try) * 300 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

func (c *Client) once(ctx context.Context, service, method, path string, body []byte, header http.Header, read func([]byte) error) error {
	r, err := http.NewRequestWithContext(ctx, method, c.endpoint(service)+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("request to %s: %w", service, err)
	}
	r.Header = header.Clone()
	keys, err := c.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("AWS credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	if err := c.signer.SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), service, c.Region, time.Now()); err != nil {
		return fmt.Errorf("sign a request to %s: %w", service, err)
	}
	resp, err := c.o.HTTP.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return fmt.Errorf("%s at %s does not answer: %w", service, r.URL.Host, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", service, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(service, resp, data)
	}
	if err := read(data); err != nil {
		return fmt.Errorf("read the answer of %s: %w", service, err)
	}
	return nil
}

// refusal reads an error in either form.
func refusal(service string, resp *http.Response, data []byte) *Error {
	e := &Error{Service: service, Status: resp.StatusCode}
	var j struct {
		Type    string `json:"__type"`
		Code    string `json:"code"`
		Message string `json:"message"`
		Upper   string `json:"Message"`
	}
	var x struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	switch {
	case json.Unmarshal(data, &j) == nil:
		e.Code, e.Message = cmp.Or(j.Type, j.Code, resp.Header.Get("X-Amzn-Errortype")), cmp.Or(j.Message, j.Upper)
	case xml.Unmarshal(data, &x) == nil:
		e.Code, e.Message = x.Code, x.Message
	default:
		e.Message = "something that is no answer of AWS"
	}
	if _, after, ok := strings.Cut(e.Code, "#"); ok {
		e.Code = after
	}
	e.Code, _, _ = strings.Cut(e.Code, ":")
	return e
}

// Clock returns the time of AWS, accurate to one second. The time is in the Date header of the answer to an empty
// request. An error means that no answer arrived.
func (c *Client) Clock(ctx context.Context) (theirs time.Time, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint("dynamodb")+"/", nil)
	if err != nil {
		return time.Time{}, err
	}
	resp, err := c.o.HTTP.Do(r)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time from AWS: %w", err)
	}
	resp.Body.Close()
	theirs, err = http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("parse the time that AWS returned: %w", err)
	}
	return theirs, nil
}

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
