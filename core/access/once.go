package access

import (
	"context"

	"github.com/tickring/tickring/core"
)

// Once answers the secret of one log-in as the person admin, good for OnceFor in this process
// alone: for who started the server and reads its terminal.
func (a *Access) Once() string { return a.once.make(a.now()) }

// LogInOnce answers a session to who has that secret, the first time.
func (a *Access) LogInOnce(ctx context.Context, secret string, from From) (string, error) {
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

// ByLink is the author of the person admin where nobody else made it.
const ByLink = "log-in-link"
