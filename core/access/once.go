package access

import (
	"context"

	"github.com/tickring/tickring/core"
)

// Once returns the secret of one login as user "admin", for the terminal of the server. The secret is valid for OnceFor in
// this process.
func (a *Access) Once() string { return a.once.make(a.now()) }

// LogInOnce starts a session of user "admin" for the secret of Once, which works one time.
func (a *Access) LogInOnce(ctx context.Context, secret string, from Origin) (string, error) {
	took, err := a.froms.take(placesOf(from.Address), a.now())
	if err != nil {
		return "", err
	}
	if !a.once.use(secret, a.now()) {
		return "", core.Errorf(core.CodeUnauthorized, "this link was already used or has expired: log in with the admin token, or restart the "+
			"server for a new link")
	}
	a.froms.giveBack(took)
	return a.asFirst(ctx, ByLink, from)
}

// ByLink is the author of user "admin" if the one-time link created it.
const ByLink = "log-in-link"
