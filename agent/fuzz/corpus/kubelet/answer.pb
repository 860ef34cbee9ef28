

ASCEND_VISIBLE_DEVICES4,5"
/dev/davinci4/dev/davinci4rw