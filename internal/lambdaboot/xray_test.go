package lambdaboot

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/tickring/tickring/internal/testkit/check"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestXRaySignsItsRequestsOnly: a collector outside AWS gets no signature.
func TestXRaySignsItsRequestsOnly(t *testing.T) {
	sdk := aws.Config{Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", "SESSION")}
	for url, signed := range map[string]bool{
		"https://xray.eu-central-1.amazonaws.com/v1/traces":         true,
		"https://xray.eu-central-1.amazonaws.com.cn/v1/traces":      true,
		"http://xray.eu-central-1.amazonaws.com/v1/traces":          false,
		"https://xray.eu-central-1.amazonaws.com.evil.io/v1/traces": false,
		"https://collector.example.com/v1/traces":                   false,
	} {
		var got *http.Request
		var body []byte
		x := newXRay(sdk, transport(func(r *http.Request) (*http.Response, error) {
			got = r
			body, _ = io.ReadAll(r.Body)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("spans"))
		check.OK(t, err)
		check.Call(t)(x.RoundTrip(r))
		sign := got.Header.Get("Authorization")
		if strings.Contains(sign, "AKID") != signed || signed && (!strings.Contains(sign, "/eu-central-1/xray/aws4_request") ||
			got.Header.Get("X-Amz-Security-Token") != "SESSION") || !signed && len(got.Header) > 0 || string(body) != "spans" {
			t.Errorf("%s: %v, body %q", url, got.Header, body)
		}
	}
}
