package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// sessionCookie is that of who is logged in.
const sessionCookie = "tickring_session"

// sessions are those of who is logged in, in this process.
type sessions struct {
	mu   sync.Mutex
	ends map[[sha256.Size]byte]time.Time
}

func (s *sessions) knows(r *http.Request) bool {
	k, err := r.Cookie(sessionCookie)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.ends[sha256.Sum256([]byte(k.Value))])
}

func (s *sessions) begin() string {
	secret := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil || len(s.ends) > 1000 {
		s.ends = map[[sha256.Size]byte]time.Time{}
	}
	s.ends[sha256.Sum256([]byte(secret))] = time.Now().Add(12 * time.Hour)
	return secret
}

func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, sha256.Sum256([]byte(secret)))
}

// login is what the page shows.
type login struct {
	To    string // the page to go on to
	Wrong string
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	a.out = true
	a.render(http.StatusOK, "login", login{To: here(a.Q("to"))})
}

// askLogin answers with the way in.
func (c *Console) askLogin(a *ask) {
	a.out = true
	to := Root
	if a.r.Method == http.MethodGet {
		to = a.r.URL.RequestURI()
	}
	a.render(http.StatusUnauthorized, "login", login{To: here(to)})
}

func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if err := r.ParseForm(); err != nil {
		a.fail(badForm(err))
		return
	}
	got, want := sha256.Sum256([]byte(a.Form("token"))), sha256.Sum256([]byte(c.o.Token))
	if c.o.Token == "" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		a.out = true
		a.render(http.StatusUnauthorized, "login", login{To: here(a.Form("to")), Wrong: a.Say("the token is wrong")})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: c.sessions.begin(), Path: Root, HttpOnly: true, Secure: a.secure(),
		SameSite: http.SameSiteLaxMode, MaxAge: int((12 * time.Hour).Seconds())})
	http.Redirect(w, r, here(a.Form("to")), http.StatusSeeOther)
}

func (c *Console) logOut(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if k, err := r.Cookie(sessionCookie); err == nil {
		c.sessions.end(k.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: Root, HttpOnly: true, Secure: a.secure(),
		SameSite: http.SameSiteLaxMode, MaxAge: -1})
	w.Header().Set("Clear-Site-Data", `"cache"`)
	a.remember(core.Say("you are logged out"))
	http.Redirect(w, r, Root+"login", http.StatusSeeOther)
}
