"
/dev/davinci4/dev/davinci4rw/dev/davinci_manager