package lambdaboot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// xray signs requests to the OTLP endpoint of AWS X-Ray in the function's Region, which rejects unsigned requests. Requests to
// other hosts stay as they are.
type xray struct {
	sdk    aws.Config
	host   string
	signer *v4.Signer
	next   http.RoundTripper
}

func newXRay(sdk aws.Config, next http.RoundTripper) xray {
	return xray{sdk, "xray." + sdk.Region + ".amazonaws.com", v4.NewSigner(), next}
}

func (x xray) RoundTrip(r *http.Request) (*http.Response, error) {
	if h := r.URL.Host; r.URL.Scheme != "https" || h != x.host && h != x.host+".cn" {
		return x.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body) // a batch of spans, which the SDK bounds
	_ = r.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the spans: %w", err)
	}
	who, err := x.sdk.Credentials.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("sign the request to X-Ray: %w", err)
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	sum := sha256.Sum256(body)
	if err := x.signer.SignHTTP(r.Context(), who, r, hex.EncodeToString(sum[:]), "xray", x.sdk.Region, time.Now()); err != nil {
		return nil, fmt.Errorf("sign the request to X-Ray: %w", err)
	}
	return x.next.RoundTrip(r)
}
