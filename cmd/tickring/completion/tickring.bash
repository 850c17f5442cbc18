# Completion of tickring for bash. In ~/.bashrc: eval "$(tickring completion bash)"
_tickring() {
	local word cur="${COMP_WORDS[COMP_CWORD]}"
	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(tickring complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	if [[ ${COMPREPLY[0]-} == : ]]; then # a file is meant
		cur="${cur#=}"
		COMPREPLY=()
		while IFS= read -r word; do
			COMPREPLY+=("$word")
		done < <(compgen -f -- "$cur")
		compopt -o filenames 2>/dev/null # which the bash of macOS does not know
	fi
}
complete -F _tickring tickring
