package access

import (
	"context"

	"github.com/tickring/tickring/core"
)

// Once returns a secret for one login as user "admin". The server prints a link with the secret to its terminal. The
// secret is valid only in this process, for the time OnceFor.
func (a *Access) Once() string { return a.once.make(a.now()) }

// LogInOnce starts a session of user "admin" for a secret from Once. The secret works only one time.
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

// ByLink is the author that the change record shows for the creation of user "admin", if a login with the one-time link
// created that user.
const ByLink = "log-in-link"
