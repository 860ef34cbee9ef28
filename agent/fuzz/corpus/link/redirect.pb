2
https://hub-1:7443